// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Write one byte for each socket that has an entry in a socket-storage map. So the length of the
 * output is the number of entries.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("iter/bpf_sk_storage_map")
int sluice_storages(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	char one = 1;

	if (ctx->sk)
		bpf_seq_write(ctx->meta->seq, &one, sizeof(one));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
