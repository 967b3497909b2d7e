/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "cli/host_mounts.h"

static struct host_mounts mounts;

static void parse(const char *table)
{
	static char text[65536];

	cr_assert(strlen(table) < sizeof(text));
	memcpy(text, table, strlen(table) + 1);
	host_mounts_parse(text, &mounts);
}

Test(host_mounts, the_table_of_a_host)
{
	parse("22 27 0:21 / /proc rw,relatime shared:12 - proc proc rw,hidepid=invisible,gid=4\n"
	      "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	      "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
	      "42 31 0:38 /a /other rw,relatime master:1 propagate_from:2 - cgroup2 cgroup2 rw\n"
	      "43 31 0:39 / /sys/fs/bpf rw - bpf none rw,mode=700\n");
	cr_expect(mounts.proc);
	cr_expect_not(mounts.proc_subset_pid);
	cr_expect_str_eq(mounts.proc_hidepid, "invisible");
	cr_expect_str_eq(mounts.cgroup2.path, "/sys/fs/cgroup/unified");
	cr_expect_str_eq(mounts.cgroup2.root, "/");
	cr_expect_str_eq(mounts.cgroup_memory.path, "/sys/fs/cgroup/memory");
	cr_expect_str_eq(mounts.bpffs.path, "/sys/fs/bpf");
}

Test(host_mounts, the_last_mount_on_proc_counts)
{
	parse("22 27 0:21 / /proc rw - proc proc rw,hidepid=2\n"
	      "23 22 0:22 / /proc rw - proc proc rw,subset=pid\n"
	      "24 22 0:22 / /proc/sys ro - proc proc rw,hidepid=2\n");
	cr_expect(mounts.proc && mounts.proc_subset_pid);
	cr_expect_str_empty(mounts.proc_hidepid);
	parse("22 27 0:21 / /proc rw - proc proc rw,subset=pid\n"
	      "23 22 0:22 / /proc rw - tmpfs none rw\n");
	cr_expect_not(mounts.proc);
	cr_expect_not(mounts.proc_subset_pid);
}

Test(host_mounts, escapes_in_paths)
{
	parse("41 31 0:38 / /a\\040b\\134c rw - cgroup2 cgroup2 rw\n");
	cr_expect_str_eq(mounts.cgroup2.path, "/a b\\c");
	parse("41 31 0:38 / /a\\04 rw - cgroup2 cgroup2 rw\n");
	cr_expect_str_eq(mounts.cgroup2.path, "/a\\04");
	parse("41 31 0:38 / /a\\ rw - cgroup2 cgroup2 rw\n");
	cr_expect_str_eq(mounts.cgroup2.path, "/a\\");
}

Test(host_mounts, options_are_compared_as_a_whole)
{
	parse("22 27 0:21 / /proc rw - proc proc rw,xsubset=pid,subset=pidx\n"
	      "35 31 0:32 / /m rw - cgroup cgroup rw,memory_recursiveprot\n");
	cr_expect_not(mounts.proc_subset_pid);
	cr_expect_str_empty(mounts.cgroup_memory.path);
	/* The source may be empty, or look like options. */
	parse("22 27 0:21 / /proc rw - proc  rw,hidepid=4\n");
	cr_expect_str_eq(mounts.proc_hidepid, "4");
	parse("22 27 0:21 / /proc rw - proc hidepid=1 rw\n");
	cr_expect_str_empty(mounts.proc_hidepid);
}

Test(host_mounts, lines_that_are_no_mounts_are_ignored)
{
	static const char *const wrong[] = {
	    "",
	    "\n\n",
	    " - ",
	    " - \n - proc",
	    "22 27 0:21 / /proc rw",
	    "22 27 0:21 / - proc proc rw",
	    "22 27 0:21 / /proc rw - ",
	    "22 27 0:21 / /proc rw - proc",
	    "22 27 0:21 / /proc rw -proc proc rw",
	    "a - b - c - d - cgroup2 x y",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		parse(wrong[i]);
		cr_expect_not(mounts.proc, "%s", wrong[i]);
		cr_expect_str_empty(mounts.cgroup2.path, "%s", wrong[i]);
	}
}

/* Every prefix of a table is parsed, as if the file had been cut there. */
Test(host_mounts, a_table_that_is_cut_anywhere)
{
	static const char table[] = "22 27 0:21 / /proc rw shared:1 - proc proc rw,hidepid=2\n"
				    "41 31 0:38 /r\\040 /cg rw - cgroup2 cgroup2 rw\n";
	char cut[sizeof(table)];

	for (size_t i = 0; i < sizeof(table); i++) {
		memcpy(cut, table, i);
		cut[i] = 0;
		parse(cut);
	}
	cr_expect_str_eq(mounts.cgroup2.root, "/r ");
}

Test(host_mounts, long_paths_and_values_are_not_kept)
{
	char line[2048], path[600];

	memset(path, 'p', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = 0;
	snprintf(line, sizeof(line),
		 "1 1 0:1 / %s rw - cgroup2 x rw\n2 1 0:1 / /proc rw - proc p rw,hidepid=%s\n",
		 path, path);
	parse(line);
	cr_expect_str_empty(mounts.cgroup2.path);
	cr_expect_str_empty(mounts.proc_hidepid);
}
