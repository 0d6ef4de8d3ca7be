// SPDX-License-Identifier: Apache-2.0
// load_object FILE: load a BPF object as the services do, and unload it. Programs whose section begins with "?" are
// alternatives, of which one must load. Ends with 0 if the kernel takes the object.
#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 64 };

// Load the object with one alternative, or without any if `chosen` is empty. Returns 0 or a negative errno.
static int load_with(const char *file, const char *chosen)
{
	struct bpf_object *object = bpf_object__open_file(file, NULL);
	if (!object)
		return -1;
	struct bpf_program *program;
	bpf_object__for_each_program(program, object) if (strcmp(bpf_program__name(program), chosen) == 0)
		bpf_program__set_autoload(program, true);
	int code = bpf_object__load(object);
	printf("%s%s%s: %s\n", file, *chosen ? " with " : "", chosen, code ? "refused" : "loaded");
	bpf_object__close(object);
	return code;
}

// Write the name of the alternative number `wanted` to `name`. Returns whether there are so many.
static bool alternative(const char *file, int wanted, char name[NAME])
{
	struct bpf_object *object = bpf_object__open_file(file, NULL);
	struct bpf_program *program;
	bool found = false;
	bpf_object__for_each_program(program, object) if (!bpf_program__autoload(program) && wanted-- == 0)
	{
		snprintf(name, NAME, "%s", bpf_program__name(program));
		found = true;
	}
	bpf_object__close(object);
	return found;
}

int main(int count, char **words)
{
	if (count != 2) {
		fprintf(stderr, "usage: load_object FILE\n");
		return 2;
	}
	char name[NAME] = "";
	if (!alternative(words[1], 0, name))
		return load_with(words[1], name) ? 1 : 0;
	for (int number = 0; alternative(words[1], number, name); number++)
		if (load_with(words[1], name) == 0)
			return 0;
	return 1;
}
