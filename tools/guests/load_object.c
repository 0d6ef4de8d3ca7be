// SPDX-License-Identifier: Apache-2.0
// load_object FILE…: load each BPF object as the services do, register its congestion control if it has one, and unload
// it. Prints "== STEP NAME CODE" for each step (load, register, unload); the code is 0 for success. Programs whose
// section begins with "?" are alternatives, of which one must load.
// One process for all objects, because a new one costs a guest without hardware help half a second.
#include <bpf/libbpf.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 64, TEXT = 4096 };
static const char AVAILABLE[] = "/proc/sys/net/ipv4/tcp_available_congestion_control";

static void result(const char *step, const char *name, bool ok)
{
	printf("== %s %s %d\n", step, name, ok ? 0 : 1);
	fflush(stdout);
}

// Whether the kernel offers a congestion control to connections.
static bool offered(const char *control)
{
	char names[TEXT] = "";
	FILE *file = fopen(AVAILABLE, "r");
	if (file) {
		names[fread(names, 1, TEXT - 1, file)] = '\0';
		fclose(file);
	}
	for (char *name = strtok(names, " \n"); name; name = strtok(NULL, " \n"))
		if (strcmp(name, control) == 0)
			return true;
	return false;
}

// Register and unregister the congestion control of an object that is loaded.
static void try_control(struct bpf_object *object, const char *name)
{
	struct bpf_map *map;
	bpf_object__for_each_map(map, object)
	{
		if (bpf_map__type(map) != BPF_MAP_TYPE_STRUCT_OPS)
			continue;
		struct bpf_link *link = bpf_map__attach_struct_ops(map);
		result("register", name, link && offered(bpf_map__name(map)));
		bool ended = link && bpf_link__destroy(link) == 0;
		result("unload", name, ended && !offered(bpf_map__name(map)));
	}
}

// Load the object with one alternative, or without any if `chosen` is empty. Returns NULL if the kernel refuses it.
static struct bpf_object *load_with(const char *file, const char *chosen)
{
	struct bpf_object *object = bpf_object__open_file(file, NULL);
	if (!object)
		return NULL;
	struct bpf_program *program;
	bpf_object__for_each_program(program, object) if (strcmp(bpf_program__name(program), chosen) == 0)
		bpf_program__set_autoload(program, true);
	int code = bpf_object__load(object);
	printf("%s%s%s: %s\n", file, *chosen ? " with " : "", chosen, code ? "refused" : "loaded");
	if (code == 0)
		return object;
	bpf_object__close(object);
	return NULL;
}

// Write the name of the alternative number `wanted` to `name`. Returns whether there are so many.
static bool alternative(const char *file, int wanted, char name[NAME])
{
	struct bpf_object *object = bpf_object__open_file(file, NULL);
	if (!object)
		return false;
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

// Load an object with the first of its alternatives that the kernel takes.
static struct bpf_object *load(const char *file)
{
	char chosen[NAME] = "";
	if (!alternative(file, 0, chosen))
		return load_with(file, chosen);
	struct bpf_object *object = NULL;
	for (int number = 0; !object && alternative(file, number, chosen); number++)
		object = load_with(file, chosen);
	return object;
}

static void try_object(const char *file)
{
	char path[TEXT], name[NAME];
	snprintf(path, TEXT, "%s", file);
	snprintf(name, NAME, "%.*s", (int)strcspn(basename(path), "."), basename(path));
	struct bpf_object *object = load(file);
	result("load", name, object != NULL);
	if (object)
		try_control(object, name);
	bpf_object__close(object);
}

int main(int count, char **words)
{
	for (int word = 1; word < count; word++)
		try_object(words[word]);
	return 0;
}
