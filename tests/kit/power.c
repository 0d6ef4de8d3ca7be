// SPDX-License-Identifier: Apache-2.0
// A file layer that remembers what a process has synced: LD_PRELOAD it, and set SYNCED to a folder. Each fsync() and
// fdatasync() copies the file as it is then into that folder, under its own name. It also deletes the copies of files
// that are gone, because a file system with a journal (ext4, XFS) writes earlier changes of folders at each sync. After
// a power failure, the disk holds at least these copies. Everything else counts as lost.

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void forget_deleted(const char *folder, const char *file)
{
	char path[2 * PATH_MAX];
	int length = (int)(strrchr(file, '/') - file);
	struct dirent *entry;
	DIR *copies = opendir(folder);

	while (copies != NULL && (entry = readdir(copies)) != NULL) {
		snprintf(path, sizeof(path), "%.*s/%s", length, file, entry->d_name);
		if (entry->d_type == DT_REG && access(path, F_OK) != 0) {
			snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
			unlink(path);
		}
	}
	if (copies != NULL)
		closedir(copies);
}

static void keep(int fd)
{
	char link[64], from[PATH_MAX], to[PATH_MAX + 300], part[PATH_MAX + 310], block[65536];
	const char *folder = getenv("SYNCED");
	struct stat status;
	ssize_t length;
	off_t offset = 0;

	if (folder == NULL || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, from, sizeof(from) - 1);
	if (length < 0)
		return;
	from[length] = '\0';
	snprintf(to, sizeof(to), "%s/%s", folder, strrchr(from, '/') + 1);
	snprintf(part, sizeof(part), "%s.part", to);
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	while ((length = pread(in, block, sizeof(block), offset)) > 0) {
		if (write(out, block, (size_t)length) != length)
			abort();
		offset += length;
	}
	close(in);
	close(out);
	rename(part, to);
	forget_deleted(folder, from);
}

int fsync(int fd)
{
	keep(fd);
	return 0;
}

int fdatasync(int fd)
{
	keep(fd);
	return 0;
}
