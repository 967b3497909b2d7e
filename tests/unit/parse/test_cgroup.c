/* SPDX-License-Identifier: Apache-2.0 */
/* Tests with the paths that container runtimes make. Most are from bug reports of runtimes and
 * agents. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse/cgroup.h"

#define HEX "2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d"
#define OTHER "ee4b20e90ac7f42a10bd004d05646b13d8ab5e2c5e7cbc01abf8006bac016459"
#define UUID "0d233f08-00c2-43d8-5b57-2c2af4f5bfc0"
#define TASK "cd189a933e5849daa93386466019ab50"
#define POD "pod0125ec2f_b64a_4868_8f5b_94b56cbab864"

/* Parses from memory that ends directly after the text, so that reading on is a crash. */
static struct cgroup_container parse_bytes(const char *text, size_t length)
{
	struct cgroup_container found;
	char *copy = malloc(length ? length : 1);

	memset(&found, 'x', sizeof(found));
	memcpy(copy, text, length);
	cgroup_parse(copy, length, &found);
	free(copy);
	cr_assert(memchr(found.id, 0, sizeof(found.id)));
	return found;
}

static struct cgroup_container parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

struct vector {
	const char *path, *id;
};

/* Checks a path in a line of v2 and in one of v1. */
static void check(const struct vector *vectors, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char line[1024];

		snprintf(line, sizeof(line), "0::%s\n", vectors[i].path);
		struct cgroup_container found = parse(line);
		cr_expect_str_eq(found.id, vectors[i].id, "%s: %s", line, found.id);
		cr_expect_eq(found.by_unified_alone, vectors[i].id[0] != 0, "%s", line);
		snprintf(line, sizeof(line), "11:cpu,cpuacct:%s\n", vectors[i].path);
		found = parse(line);
		cr_expect_str_eq(found.id, vectors[i].id, "%s: %s", line, found.id);
		cr_expect_not(found.by_unified_alone, "%s", line);
	}
}

#define CHECK(vectors) check(vectors, sizeof(vectors) / sizeof((vectors)[0]))

Test(cgroup, docker_and_containerd_are_recognised)
{
	static const struct vector vectors[] = {
	    {"/docker/" HEX, HEX},
	    {"/docker-ce/docker/" HEX, HEX},
	    {"/" HEX, HEX},
	    {"/system.slice/docker-" HEX ".scope", HEX},
	    {"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" HEX ".scope", HEX},
	    {"/user.slice/user-1000.slice/user@1000.service/user.slice/nerdctl-" HEX ".scope", HEX},
	    {"/default/" HEX, HEX},
	    {"/kubepods/besteffort/pod9a18ffb8-8513-11e7-b26e-7e29fbe2a5a3/" HEX, HEX},
	    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-" POD
	     ".slice/cri-containerd-" HEX ".scope",
	     HEX},
	    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-" POD ".slice/docker-" HEX
	     ".scope",
	     HEX},
	    {"/kubepods-besteffort-" POD ".slice:cri-containerd:" HEX, HEX},
	    {"/system.slice/containerd.service/kubepods-besteffort-" POD
	     ".slice:cri-containerd:" HEX,
	     HEX},
	    {"/kubepods/besteffort/pode9b90526-f47d-11e8-b2a5-080027b9f4fb/"
	     "15aa6e53-b09a-40c7-8558-c6c31e36c88a",
	     "15aa6e53-b09a-40c7-8558-c6c31e36c88a"},
	    /* A cgroup that the container has created below its own. */
	    {"/docker/" HEX "/system.slice/cron.service", HEX},
	    {"/docker/" HEX "/init.scope", HEX},
	    {"/docker/" HEX " (deleted)", HEX},
	    {"/system.slice/docker-" HEX ".scope (deleted)", HEX},
	    /* As seen from a cgroup namespace. */
	    {"/../../../kubepods-burstable.slice/kubepods-burstable-" POD
	     ".slice/cri-containerd-" HEX ".scope",
	     HEX},
	    {"/../" HEX, HEX},
	};

	CHECK(vectors);
}

Test(cgroup, crio_and_podman_are_recognised)
{
	static const struct vector vectors[] = {
	    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-" POD ".slice/crio-" HEX
	     ".scope",
	     HEX},
	    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-" POD ".slice/crio-" HEX
	     ".scope/container",
	     HEX},
	    {"/pod_123-456/crio-" HEX, HEX},
	    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-" POD
	     ".slice/crio-conmon-" HEX ".scope",
	     ""},
	    {"/pod_123-456/crio-conmon-" HEX, ""},
	    {"/machine.slice/libpod-" HEX ".scope", HEX},
	    {"/machine.slice/libpod-" HEX ".scope/container", HEX},
	    {"/machine.slice/libpod-conmon-" HEX ".scope", ""},
	    {"/machine.slice/machine-libpod_pod_" OTHER ".slice/libpod-" HEX ".scope/container",
	     HEX},
	    {"/machine.slice/machine-libpod_pod_" OTHER ".slice", ""},
	    {"/libpod_parent/libpod-" HEX, HEX},
	    {"/libpod_parent/libpod-" HEX "/ctr", HEX},
	    {"/libpod_parent/conmon", ""},
	    {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" HEX
	     ".scope/container",
	     HEX},
	    {"/user.slice/user-1000.slice/user@1000.service/user.slice/podman-6696.scope", ""},
	    {"/system.slice/quadlet-minimal.service/libpod-payload-" HEX, HEX},
	    {"/system.slice/quadlet-minimal.service/runtime", ""},
	};

	CHECK(vectors);
}

Test(cgroup, ecs_and_garden_are_recognised)
{
	static const struct vector vectors[] = {
	    {"/ecs/35df2a4b-9ba7-4a87-9ae9-b2e6b4cb4e4a/" HEX, HEX},
	    {"/ecs/" TASK "/" HEX, HEX},
	    {"/ecs/" TASK "/" TASK "-2495160603", TASK "-2495160603"},
	    {"/ecs/" TASK "/" TASK "-249516060", TASK "-249516060"},
	    {"/ecs/" TASK, ""},
	    {"/ecs/" TASK "/" TASK "-", ""},
	    {"/ecs/" TASK "/" TASK "-24951606a", ""},
	    {"/ecs/" TASK "/" TASK "-123456789012345678901", ""},
	    {"/garden/" UUID, UUID},
	    {"/garden/6f265890-5165-7fab-6b52-18d1", "6f265890-5165-7fab-6b52-18d1"},
	    {"/system.slice/garden.service/garden/70eb4ce5-a065-4401-6990-88ed",
	     "70eb4ce5-a065-4401-6990-88ed"},
	    {"/garden/good/" UUID, UUID},
	    {"/garden/bad/" UUID, UUID},
	    {"/garden/good", ""},
	    {"/good/" UUID, ""},
	    {"/garden/" UUID "0", ""},
	    {"/garden/0d233f08-00c2-43d8-5b57", ""},
	    {"/garden/0d233f08-00c2-43d8-5b57-", ""},
	    {"/garden/0d233f0800c243d85b572c2af4f5bfc0", ""},
	    /* Other cgroups have similar names. */
	    {"/system.slice/runit.service/" UUID, ""},
	};

	CHECK(vectors);
}

Test(cgroup, lxc_and_nspawn_are_recognised)
{
	static const struct vector vectors[] = {
	    {"/lxc/web", "web"},
	    {"/lxc/100/ns", "100"},
	    {"/lxc/web/system.slice/cron.service", "web"},
	    {"/lxc.payload/web", "web"},
	    {"/lxc.payload.web", "web"},
	    {"/lxc.payload.project_c-1/init.scope", "project_c-1"},
	    {"/lxc.monitor/web", ""},
	    {"/lxc.monitor.web", ""},
	    {"/lxc/lxc.monitor.web", ""},
	    {"/lxc.pivot", ""},
	    {"/lxc.payload.", ""},
	    {"/lxc", ""},
	    {"/lxc/\xc3\xa4", ""},
	    {"/lxc/..", ""},
	    {"/lxc/a b", ""},
	    {"/machine.slice/machine-web.scope/payload", "web"},
	    {"/machine.slice/machine-my\\x2dweb.scope/payload/system.slice/x.service", "my-web"},
	    {"/machine.slice/machine-my\\x2fweb.scope/payload", ""},
	    {"/machine.slice/machine-my\\x2.scope/payload", ""},
	    {"/machine.slice/machine-my\\x.scope/payload", ""},
	    {"/machine.slice/machine-.scope/payload", ""},
	    {"/machine.slice/machine-web.scope/supervisor", ""},
	    {"/machine.slice/machine-web.scope", ""},
	    {"/machine.slice/systemd-nspawn@web.service/payload/init.scope", "web"},
	    {"/machine.slice/systemd-nspawn@web.service/supervisor", ""},
	    {"/machine.slice/machine-qemu\\x2d1\\x2ddebian.scope/libvirt/emulator", ""},
	    {"/payload", ""},
	};

	CHECK(vectors);
}

Test(cgroup, other_paths_are_no_container)
{
	static const struct vector vectors[] = {
	    {"/", ""},
	    {"/init.scope", ""},
	    {"/system.slice/containerd.service", ""},
	    {"/system.slice/docker.service", ""},
	    {"/system.slice/ssh.service", ""},
	    {"/user.slice/user-1000.slice/user@1000.service/app.slice/"
	     "vte-spawn-f22f14d2-3d44-4304-9879-3fdd0df7b08e.scope",
	     ""},
	    {"/user.slice/user-1000.slice/session-3.scope", ""},
	    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-" POD ".slice", ""},
	    {"/kubepods/besteffort/pod9a18ffb8-8513-11e7-b26e-7e29fbe2a5a3", ""},
	    /* One digit less, one more, and one wrong digit. */
	    {"/docker/403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d", ""},
	    {"/docker/f" HEX, ""},
	    {"/docker/G403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d", ""},
	    {"/docker/2403CCFE427F1DC7B6120DCCB9AC58C2F8456950380D587A9F33EA7F00DD303D", ""},
	    {"/docker-" HEX ".service", ""},
	    {"/docker-" HEX ".scope.scope", ""},
	    {"/conmon-" HEX ".scope", ""},
	};

	CHECK(vectors);
}

Test(cgroup, the_innermost_container_counts)
{
	static const struct vector vectors[] = {
	    {"/docker/" OTHER "/docker/" HEX, HEX},
	    {"/docker/" OTHER "/kubelet/kubepods/besteffort/pod9a18ffb8/" HEX, HEX},
	    {"/system.slice/docker-" OTHER
	     ".scope/kubelet.slice/kubelet-kubepods.slice/cri-containerd-" HEX ".scope",
	     HEX},
	    {"/docker/" HEX "/system.slice/containerd.service", HEX},
	    /* The monitor of an inner container is in the outer one. */
	    {"/docker/" HEX "/machine.slice/libpod-conmon-" OTHER ".scope", HEX},
	    {"/lxc.payload.web/docker/" HEX, HEX},
	    {"/lxc.payload.web/lxc.payload.inner", "inner"},
	    {"/lxc.payload.web/lxc.monitor.inner", "web"},
	    {"/lxc/web/lxc/inner", "inner"},
	    {"/machine.slice/machine-web.scope/payload/system.slice/docker-" HEX ".scope", HEX},
	};

	CHECK(vectors);
}

/* All lines of a process, for different uses of the hierarchies. */
Test(cgroup, the_most_nested_hierarchy_counts)
{
	static const struct {
		const char *text, *id;
		bool by_unified_alone;
	} files[] = {
	    /* v1, and a v2 that the runtime does not use: all containers share one v2 cgroup. */
	    {"12:net_cls,net_prio:/docker/" HEX "\n10:rdma:/\n1:name=systemd:/docker/" HEX
	     "\n0::/system.slice/containerd.service\n",
	     HEX, false},
	    {"13:freezer:/docker/" HEX "\n11:files:/\n", HEX, false},
	    {"2:memory:/\n1:name=systemd:/system.slice/crio-" HEX ".scope\n", HEX, false},
	    /* v2 alone, and with v1 hierarchies that are not used. */
	    {"0::/system.slice/docker-" HEX ".scope\n", HEX, true},
	    {"1:net_cls:/\n0::/docker/" HEX "\n", HEX, true},
	    {"0::/docker/" HEX "\n1:net_cls:/\n", HEX, true},
	    /* Both agree, but other processes in the v2 cgroup may be elsewhere in v1. */
	    {"4:memory:/docker/" HEX "\n0::/docker/" HEX "\n", HEX, false},
	    /* Nested by v1 only. */
	    {"4:memory:/docker/" OTHER "/docker/" HEX "\n0::/docker/" OTHER "\n", HEX, false},
	    {"0::/docker/" OTHER "\n4:memory:/docker/" OTHER "/docker/" HEX "\n", HEX, false},
	    {"4:memory:/user.slice\n0::/docker/" HEX "\n", HEX, false},
	    {"4:memory:/\n0::/\n", "", false},
	    {"4:memory:/\n", "", false},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const struct cgroup_container found = parse(files[i].text);

		cr_expect_str_eq(found.id, files[i].id, "%s: %s", files[i].text, found.id);
		cr_expect_eq(found.by_unified_alone, files[i].by_unified_alone, "%s",
			     files[i].text);
	}
}

Test(cgroup, malformed_lines_are_skipped)
{
	static const char *const texts[] = {
	    "",
	    "\n",
	    ":\n",
	    "::\n",
	    "0\n",
	    "0:\n",
	    "0::\n",
	    "0::docker/" HEX "\n",
	    "0:/docker/" HEX "\n",
	    "/docker/" HEX "\n",
	    HEX "\n",
	    /* The line is cut off. */
	    "0::/docker/" HEX,
	    "0::/lxc/web",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct cgroup_container found = parse(texts[i]);

		cr_expect_str_eq(found.id, "", "%s", texts[i]);
		cr_expect_not(found.by_unified_alone);
	}
	/* With a malformed line, the v2 cgroup does not prove the container. */
	struct cgroup_container found = parse("0::/docker/" HEX "\nwhat\n");
	cr_expect_str_eq(found.id, HEX);
	cr_expect_not(found.by_unified_alone);
	found = parse("0::/docker/" HEX "\n4:memory:/us");
	cr_expect_str_eq(found.id, HEX);
	cr_expect_not(found.by_unified_alone);
}

Test(cgroup, a_text_may_be_cut_anywhere)
{
	static const char text[] = "4:memory:/lxc/web\n0::/docker/" HEX "\n";

	for (size_t length = 0; length < sizeof(text); length++) {
		const struct cgroup_container found = parse_bytes(text, length);
		const bool second = length >= strlen(text);

		cr_expect_str_eq(found.id, length < 18 ? "" : "web", "%zu: %s", length, found.id);
		cr_expect_not(found.by_unified_alone && !second);
	}
}

Test(cgroup, long_names_and_texts_are_bounded)
{
	enum {
		LENGTH = CGROUP_TEXT_MAX + 1000
	};
	char name[CGROUP_CONTAINER_MAX + 2], line[512];
	char *text = malloc(LENGTH);

	memset(name, 'a', sizeof(name));
	name[CGROUP_CONTAINER_MAX] = 0;
	snprintf(line, sizeof(line), "0::/lxc/%s\n", name);
	cr_expect_str_eq(parse(line).id, name);
	name[CGROUP_CONTAINER_MAX] = 'a';
	name[CGROUP_CONTAINER_MAX + 1] = 0;
	snprintf(line, sizeof(line), "0::/lxc/%s\n", name);
	cr_expect_str_eq(parse(line).id, "", "better none than another's");
	/* Beyond the limit. */
	memset(text, '\n', LENGTH);
	memcpy(text + CGROUP_TEXT_MAX - 2, "0::/docker/" HEX "\n", 11 + 64 + 1);
	cr_expect_str_eq(parse_bytes(text, LENGTH).id, "");
	/* One path with as many components as fit. */
	for (size_t i = 0; i < LENGTH; i++)
		text[i] = "/lxc"[(i + 1) % 4];
	memcpy(text, "0::", 3);
	text[CGROUP_TEXT_MAX - 1] = '\n';
	cr_expect_str_eq(parse_bytes(text, CGROUP_TEXT_MAX).id, "lxc");
	free(text);
}

#define NUMBER UINT64_C(0x2403ccfe427f1dc7) /* of HEX */
#define OTHER_NUMBER UINT64_C(0xee4b20e90ac7f42a)

Test(cgroup, containers_of_the_host_have_a_number)
{
	static const struct {
		const char *text;
		uint64_t number;
	} vectors[] = {
	    {"0::/docker/" HEX "\n", NUMBER},
	    {"0::/system.slice/docker-" HEX ".scope\n", NUMBER},
	    {"0::/kubepods.slice/kubepods-" POD ".slice/cri-containerd-" OTHER ".scope\n",
	     OTHER_NUMBER},
	    /* Of this reader's siblings, who is in a cgroup namespace. */
	    {"0::/../../" POD "/" HEX "\n", NUMBER},
	    /* What a container makes itself is a part of it. */
	    {"0::/docker/" HEX "/docker/" OTHER "\n", NUMBER},
	    {"0::/docker/" HEX "/system.slice/docker-" OTHER ".scope\n", NUMBER},
	    {"3:cpu:/\n2:memory:/docker/" HEX "\n0::/\n", NUMBER},
	    /* Others have a part of the tree, and may give it any names. */
	    {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/libpod-" HEX ".scope\n",
	     0},
	    {"0::/user.slice/docker-" HEX ".scope\n", 0},
	    {"0::/system.slice/builder.service/" HEX "\n", 0},
	    {"0::/system.slice/sshd.service\n", 0},
	    {"0::/\n", 0},
	    {"0::/docker/" HEX, 0},
	    {"", 0},
	};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		cr_expect_eq(cgroup_container_of_host(vectors[i].text, strlen(vectors[i].text)),
			     vectors[i].number, "%s", vectors[i].text);
}

Test(cgroup, names_of_containers_have_numbers_too)
{
	static const char web[] = "0::/lxc/web\n", mail[] = "0::/lxc/mail\n";
	const uint64_t number = cgroup_container_of_host(web, strlen(web));

	cr_expect_neq(number, 0);
	cr_expect_eq(number, cgroup_container_of_host(web, strlen(web)));
	cr_expect_neq(number, cgroup_container_of_host(mail, strlen(mail)));
}
