/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit_debug SECONDS MODE: runs code like a JIT compiler (tests/support/jit_image_code.c), and keeps its
 * image for debuggers.
 * MODE 0: before the code runs, after 300 other images in the list.
 * MODE 1: a second after the code has started.
 * MODE 2: before the code runs; upon SIGUSR1 another image and other code take their places.
 * MODE 3: the code is mapped as a part of its image, which is in no list.
 * MODE 4: hostile: the list leads to forged images and then in a circle.
 * MODE 5: hostile: a thread changes list and image at full speed.
 * MODE 6: code and image are freed after 300 ms, and others are made elsewhere.
 */
#include <pthread.h>

#include "jit_code.h"
#include "tests/support/jit_image_object.h"

enum {
	OTHERS = 300,
	PAGE = 4096,
};

#define NAMED "'spin', 'inner', 'middle', 'outer'"
#define NEXT "'spin', 'next_inner', 'next_middle', 'next_outer'"
/* Samples whose stacks were completed in user space cannot wait for the memory. */
#define UNNAMED "{'re': '.anonymous code.', 'min': 3, 'max': 3}"
#define CALLERS "'enters', 'main', '@start'"

static struct jit_code_entry entries[OTHERS + 1];

/* Runs the code from its outermost function on: for these many ms, or until SIGUSR1. */
#define RUN(code, ms) enters((const unsigned char *)(code) + jit_entry_offset(jit_object), ms)

/* Adds an image at the front of the list. */
static void add(struct jit_code_entry *entry, const char *image, size_t size)
{
	*entry = (struct jit_code_entry){
	    .next_entry = __jit_debug_descriptor.first_entry, .symfile_addr = image, .symfile_size = size};
	if (entry->next_entry)
		entry->next_entry->prev_entry = entry;
	__jit_debug_descriptor.first_entry = __jit_debug_descriptor.relevant_entry = entry;
	__jit_debug_descriptor.action_flag = 1;
	__jit_debug_register_code();
}

static void load(char *code, const char *object)
{
	const Elf64_Shdr *text = jit_text((char *)(uintptr_t)object);

	mprotect(code, CODE_BYTES, PROT_READ | PROT_WRITE);
	memcpy(code, object + text->sh_offset, text->sh_size);
	mprotect(code, CODE_BYTES, PROT_READ | PROT_EXEC);
}

static char *new_code(void)
{
	return mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Maps the object file, with its code executable where it is. */
static const char *map_object(void)
{
	const size_t size = (size_t)(jit_object_end - jit_object), at = jit_text((char *)(uintptr_t)jit_object)->sh_offset;
	char *image = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(image, jit_object, size);
	mprotect(image, size, PROT_READ);
	mprotect(image + at, PAGE, PROT_READ | PROT_EXEC);
	return image + at;
}

static void add_forged(const char *object)
{
	const size_t size = (size_t)(jit_object_end - jit_object);
	char *forged = malloc(size);

	memcpy(forged, object, size);
	memset(forged + sizeof(Elf64_Ehdr), 0xff, size - sizeof(Elf64_Ehdr));
	add(&entries[1], forged, size);
	add(&entries[2], object, SIZE_MAX);
	add(&entries[3], (const char *)16, size);
	add(&entries[4], object, 10);
	entries[0].next_entry = &entries[4];
}

/* The image is now there, now broken, now elsewhere. */
static void *change_all(void *image)
{
	const size_t size = (size_t)(jit_object_end - jit_object);
	char *bytes = image;

	for (unsigned int i = 0;; i = i * 1103515245 + 12345) {
		bytes[i / 7 % size] = (char)(i >> 16);
		entries[i % 3].next_entry = i & 8 ? &entries[i / 5 % 4] : NULL;
		entries[i % 4].symfile_size = i & 16 ? size : i;
		__jit_debug_descriptor.first_entry = i & 32 ? &entries[i / 3 % 4] : NULL;
	}
	return NULL;
}

/* Code and image exist for a moment. The addresses of the code are not used again. */
static void run_briefly(void)
{
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		char *code = new_code(), *image = jit_copy(jit_object, jit_object_end, code);

		load(code, jit_object);
		add(&entries[0], image, (size_t)(jit_object_end - jit_object));
		RUN(code, 300);
		__jit_debug_descriptor.first_entry = NULL;
		free(image);
		mprotect(code, CODE_BYTES, PROT_NONE);
	}
}

static void say_chains(long mode)
{
	if (mode == 1)
		chain_say("{'chains': [[" NAMED ", " CALLERS "], [" UNNAMED ", " CALLERS "]], 'need': {'^spin$': 0.3}}");
	else if (mode == 2)
		chain_say("{'chains': [[" NAMED ", " CALLERS "], [" UNNAMED ", " CALLERS "], [" NEXT ", " CALLERS "]], "
			  "'need': {'^inner$': 0.02, '^next_inner$': 0.2}}");
	else
		chain_say("{'chains': [[" NAMED ", " CALLERS "], [" UNNAMED ", " CALLERS "]], 'need': {'^spin$': %s}}",
			  mode == 6 ? "0.95" : "0.8");
}

int main(int argc, char **argv)
{
	const long mode = chain_start(argc, argv, 0);
	const size_t size = (size_t)(jit_object_end - jit_object);
	char *code = new_code();
	char *image = jit_copy(jit_object, jit_object_end, code);
	pthread_t thread;

	load(code, jit_object);
	if (mode == 3)
		code = (char *)(uintptr_t)map_object();
	else if (mode != 1 && mode != 6)
		add(&entries[0], image, size);
	for (int i = 1; mode == 0 && i <= OTHERS; i++)
		add(&entries[i], jit_copy(jit_object, jit_object_end, new_code()), size);
	if (mode == 4)
		add_forged(image);
	if (mode == 5)
		pthread_create(&thread, NULL, change_all, image);
	say_chains(mode);
	if (mode == 6)
		run_briefly();
	if (mode == 1) {
		RUN(code, 1000);
		add(&entries[0], image, size);
	} else if (mode == 2) {
		RUN(code, 0);
		__jit_debug_descriptor.first_entry = NULL;
		load(code, jit_next);
		add(&entries[1], jit_copy(jit_next, jit_next_end, code), (size_t)(jit_next_end - jit_next));
	}
	RUN(code, 0);
	return 0;
}
