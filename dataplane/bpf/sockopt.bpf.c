// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The setsockopt() of include/sluice.h: every process of a cgroup can declare its flows and read
 * them.
 *
 *   set SLUICE_FLOW    check the value, get memory, select the control; only then write: a refusal
 *                      changes nothing
 *   get SLUICE_FLOW    the declared fields, with times as of now
 *   get SLUICE_STATE   the state from the congestion control; the bytes are counted here, so that
 *                      they are right under any control
 *
 * It also lets listeners from before the policy accept ECN, and gives their connections its control.
 *
 * All run with the socket locked. Options of other levels pass unchanged. Agents that do not know
 * of each other may attach several instances: the second one finds the call handled and leaves it
 * alone.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "flow.bpf.h"
#include "select_control.bpf.h"
#include "socket_tag.bpf.h"

/* Macros of the kernel, which BTF lacks. */
#define ENOMEM 12
#define ENOPROTOOPT 92
#define EOPNOTSUPP 95
#define SEND_SHUTDOWN 2

/*
 * The kernel shows programs no more than this of a value. For a longer value, optlen must be set
 * to 0: then the kernel uses the whole value itself.
 */
#define SEEN_BYTES_MAX 4096

#define HANDLED (-1) /* as optlen: nothing is left for the kernel to do */

_Static_assert(sizeof(struct sluice_flow) == 56, "as documented");
_Static_assert(sizeof(struct sluice_state) == 64, "as documented");

/*
 * The kernel's own socket, whose fields bpf_probe_read_kernel() can read. The verifier allows no
 * arithmetic on the pointer in the context. Read from the stack, the pointer is a plain number.
 * Only for sockets that may_carry_flows().
 */
static __always_inline struct tcp_sock *tcp_of(struct bpf_sock *sk)
{
	struct tcp_sock *tp = NULL;

	bpf_probe_read_kernel(&tp, sizeof(tp), &sk);
	return tp;
}

/* The value, or NULL if it has fewer than `size_bytes`. */
static __always_inline void *value_of(struct bpf_sockopt *ctx, __u32 size_bytes)
{
	void *value = ctx->optval, *end = ctx->optval_end;

	return value + size_bytes <= end ? value : NULL;
}

static __always_inline int may_carry_flows(const struct bpf_sock *sk)
{
	return (sk->family == AF_INET || sk->family == AF_INET6) && sk->type == SOCK_STREAM &&
	       sk->protocol == IPPROTO_TCP && sk->state != BPF_TCP_LISTEN;
}

/* No SYN has left: connect() was not called, or TCP Fast Open keeps the SYN for the first data. */
static __always_inline int unconnected(struct tcp_sock *tp, __u32 state)
{
	return state == TCP_CLOSE || (state == TCP_SYN_SENT && !BPF_CORE_READ(tp, packets_out));
}

/* bytes_acked counts the SYN at the end that connects: there the first byte of data is byte 1. */
static __always_inline __u64 next_byte(struct tcp_sock *tp, __u32 state)
{
	if (unconnected(tp, state))
		return 1;
	return BPF_CORE_READ(tp, bytes_acked) + (__u32)(BPF_CORE_READ(tp, write_seq) - BPF_CORE_READ(tp, snd_una));
}

/* bytes_acked counts the FIN, too. After an orderly end, the socket has no error. */
static __always_inline int fin_acked(struct tcp_sock *tp, __u32 state)
{
	struct sock *sk = (struct sock *)tp;

	if (state == TCP_FIN_WAIT2)
		return 1;
	return state == TCP_CLOSE && BPF_CORE_READ_BITFIELD_PROBED(sk, sk_shutdown) & SEND_SHUTDOWN &&
	       !BPF_CORE_READ(sk, sk_err) && BPF_CORE_READ(tp, snd_una) == BPF_CORE_READ(tp, write_seq);
}

static __always_inline __u64 acked_bytes(struct tcp_sock *tp, __u32 state, __u64 first_byte)
{
	__u64 acked = BPF_CORE_READ(tp, bytes_acked) - fin_acked(tp, state);

	return (__s64)(acked - first_byte) > 0 ? acked - first_byte : 0;
}

/* ---- checks of a declaration */

static __always_inline int times_are_wrong(const struct sluice_flow *f, __u64 now_ns)
{
	if (f->fields & SLUICE_HAS_DEADLINE)
		return f->deadline_ns <= 0 || f->elapsed_ns >= now_ns;
	return f->deadline_ns || f->elapsed_ns;
}

static __always_inline int importance_is_wrong(const struct sluice_flow *f)
{
	if (f->fields & SLUICE_HAS_IMPORTANCE)
		return !f->importance_milli || f->importance_milli > SLUICE_IMPORTANCE_MAX_MILLI ||
		       f->importance_share_milli > 1000;
	return f->importance_milli || f->importance_share_milli;
}

static __always_inline int control_is_wrong(const struct sluice_flow *f)
{
	if (f->fields & SLUICE_HAS_CONTROL)
		return !f->control[0] || f->control[SLUICE_CONTROL_BYTES - 1];
	for (int i = 0; i < SLUICE_CONTROL_BYTES; i++)
		if (f->control[i])
			return 1;
	return 0;
}

static __always_inline int is_wrong(const struct sluice_flow *f, __u64 now_ns)
{
	return f->fields & ~SLUICE_HAS_ALL || !(f->fields & SLUICE_HAS_SIZE) != !f->size_bytes ||
	       (f->fields & SLUICE_HAS_QUENCH ? f->quench > SLUICE_QUENCH_SUSPEND : f->quench) ||
	       times_are_wrong(f, now_ns) || importance_is_wrong(f) || control_is_wrong(f);
}

/* ---- set */

static __always_inline void store_flow(struct socket_flow *to, const struct sluice_flow *f, __u64 first_byte,
				       __u64 now_ns)
{
	__builtin_memset(to, 0, sizeof(*to));
	to->declared.fields = f->fields & ~SLUICE_HAS_CONTROL;
	to->declared.quench = f->quench;
	to->declared.size_bytes = f->size_bytes;
	to->declared.start_ns = now_ns - f->elapsed_ns;
	to->declared.deadline_ns = f->fields & SLUICE_HAS_DEADLINE ? now_ns + f->deadline_ns : 0;
	to->declared.first_byte = first_byte;
	to->declared.importance_milli = f->importance_milli;
	to->declared.importance_share_milli = f->importance_share_milli;
}

static __always_inline int set_flow(struct bpf_sockopt *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	__u64 now_ns = bpf_ktime_get_ns();
	const struct sluice_flow *value;
	struct socket_flow *entry;
	struct sluice_flow flow;
	struct tcp_sock *tp;
	__u32 state;
	int code;

	if (!sk || !may_carry_flows(sk))
		return -EOPNOTSUPP;
	if (ctx->optname != SLUICE_FLOW)
		return -ENOPROTOOPT;
	value = value_of(ctx, sizeof(flow));
	if (!host_of((struct sock *)tcp_of(sk))) /* no agent serves this namespace: nothing would happen */
		return -ENOPROTOOPT;
	if (ctx->optlen != sizeof(flow) || !value)
		return -EINVAL;
	flow = *value;
	if (is_wrong(&flow, now_ns))
		return -EINVAL;
	entry = bpf_sk_storage_get(&sluice_flow_2, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!entry)
		return -ENOMEM;
	tp = tcp_of(sk);
	state = sk->state;
	if (flow.fields & SLUICE_HAS_CONTROL) {
		code = select_control(sk, tp, state, flow.control);
		if (code)
			return code;
	}
	store_flow(entry, &flow, next_byte(tp, state), now_ns);
	return 0;
}

/* A program gives its socket another control than ours, which would leave the tag as it is for ever. */
static __always_inline void watch_control(struct bpf_sockopt *ctx)
{
	const char *name = value_of(ctx, sizeof("sluice_") - 1);
	const struct host_settings *host;
	struct bpf_sock *sk = ctx->sk;
	struct socket_flow *flow;
	struct sock *full;

	if (!sk || !may_carry_flows(sk) || (name && is_ours(name)))
		return;
	full = (struct sock *)tcp_of(sk);
	host = host_of(full);
	flow = bpf_sk_storage_get(&sluice_flow_2, sk, NULL, 0);
	if (!(flow && flow->tag.last_data_ns) &&
	    !(sockets_carry_tags(host) && socket_dscp(full) == host->written[SL_TAG_ATTAINED_FIRST].as))
		return;
	set_dscp(sk, full, 0);
	if (flow)
		flow->tag.last_data_ns = 0;
}

SEC("cgroup/setsockopt")
int sluice_set(struct bpf_sockopt *ctx)
{
	int code;

	if (ctx->level == SOL_TCP && ctx->optname == TCP_CONGESTION)
		watch_control(ctx);
	if (ctx->level != SOL_SLUICE) {
		if (ctx->optlen > SEEN_BYTES_MAX)
			ctx->optlen = 0;
		return 1;
	}
	if (ctx->optlen == HANDLED)
		return 1;
	code = set_flow(ctx);
	ctx->optlen = HANDLED;
	if (!code)
		return 1;
	bpf_set_retval(code);
	return 0;
}

/* ---- get */

static __always_inline void fill_flow(struct sluice_flow *f, const struct declared_flow *declared, __u64 now_ns)
{
	f->fields = declared->fields;
	f->quench = declared->quench;
	f->size_bytes = declared->size_bytes;
	f->importance_milli = declared->importance_milli;
	f->importance_share_milli = declared->importance_share_milli;
	if (declared->fields & SLUICE_HAS_DEADLINE) {
		f->deadline_ns = declared->deadline_ns - now_ns;
		f->elapsed_ns = now_ns - declared->start_ns;
	}
}

static __always_inline int get_flow(struct bpf_sockopt *ctx, const struct socket_flow *entry)
{
	struct sluice_flow *f = value_of(ctx, sizeof(*f));

	if (!f)
		return -EINVAL;
	__builtin_memset(f, 0, sizeof(*f));
	if (entry)
		fill_flow(f, &entry->declared, bpf_ktime_get_ns());
	f->fields |= SLUICE_HAS_CONTROL;
	control_name(control_of(tcp_of(ctx->sk)), f->control);
	ctx->optlen = sizeof(*f);
	return 0;
}

static __always_inline int get_state(struct bpf_sockopt *ctx, const struct socket_flow *entry)
{
	struct sluice_state *s = value_of(ctx, sizeof(*s));

	if (!s)
		return -EINVAL;
	__builtin_memset(s, 0, sizeof(*s));
	if (entry) {
		*s = entry->state;
		s->acked_bytes = acked_bytes(tcp_of(ctx->sk), ctx->sk->state, entry->declared.first_byte);
	}
	ctx->optlen = sizeof(*s);
	return 0;
}

static __always_inline int get_option(struct bpf_sockopt *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct socket_flow *entry;

	if (!sk || !may_carry_flows(sk))
		return -EOPNOTSUPP;
	entry = bpf_sk_storage_get(&sluice_flow_2, sk, NULL, 0);
	if (ctx->optname == SLUICE_FLOW)
		return get_flow(ctx, entry);
	if (ctx->optname == SLUICE_STATE)
		return get_state(ctx, entry);
	return -ENOPROTOOPT;
}

SEC("cgroup/getsockopt")
int sluice_get(struct bpf_sockopt *ctx)
{
	if (ctx->level != SOL_SLUICE) {
		if (ctx->optlen > SEEN_BYTES_MAX)
			ctx->optlen = 0;
		return 1;
	}
	if (ctx->retval) /* the kernel does not know the level, and no instance has answered yet */
		bpf_set_retval(get_option(ctx));
	return 1;
}

/* ---- sockets that this policy has not made */

/*
 * Does the socket have the control that the host had before ours, and not by its program's choice? Those are
 * listeners from before the policy, with their connections, and sockets of namespaces that were made before it,
 * for example of containers.
 */
static __always_inline int has_former_control(struct bpf_sock_ops *ops, const struct host_settings *host)
{
	char former[SLUICE_CONTROL_BYTES] = {};

	return host->control[0] && !bpf_getsockopt(ops, SOL_TCP, TCP_CONGESTION, former, sizeof(former)) &&
	       same_name(former, host->without_ecn);
}

/* In a namespace whose default the agent does not set. In the agent's own, a program has chosen the former control. */
static __always_inline int has_default_control(struct tcp_sock *tp)
{
	const struct tcp_congestion_ops *of_namespace = BPF_CORE_READ(net_of(tp), ipv4.tcp_congestion_control);

	return control_of(tp) == of_namespace;
}

static __always_inline struct tcp_sock *tcp_of_ops(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;

	return sk ? bpf_skc_to_tcp_sock(sk) : NULL;
}

/*
 * Must the socket ask for ECN, or accept it? A control that needs no ECN does not, and the kernel refuses the ECN of a
 * SYN that is itself ECN-capable, as those of our controls are. For a request, the answer is for its listener's control.
 */
static __always_inline int needs_ecn(struct bpf_sock_ops *ops, const struct host_settings *host)
{
	struct tcp_sock *tp;

	if (!ops->is_fullsock)
		return 1;
	tp = tcp_of_ops(ops);
	return tp && has_default_control(tp) && has_former_control(ops, host);
}

/* Give a connection whose ends have agreed on ECN the control that new sockets have. */
static __always_inline void take_control(struct bpf_sock_ops *ops, struct tcp_sock *tp,
					 const struct host_settings *host)
{
	char control[SLUICE_CONTROL_BYTES];

	if (!(tp->ecn_flags & TCP_ECN_AGREED) || !has_former_control(ops, host))
		return;
	__builtin_memcpy(control, host->control, sizeof(control));
	bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, control, sizeof(control));
}

/*
 * A connection begins. One with a control of ours carries tags. Without ECN, its control becomes another one, which
 * knows no tags, so it must not keep that of its SYN.
 */
static __always_inline void begin(struct bpf_sock_ops *ops, struct tcp_sock *tp, const struct host_settings *host)
{
	const struct sock *sk = (struct sock *)tp;
	char name[SLUICE_CONTROL_BYTES];

	if (!sockets_carry_tags(host))
		return;
	control_name(control_of(tp), name);
	if (is_ours(name) && tp->ecn_flags & TCP_ECN_AGREED)
		carry_tag(ops, sk, host, SL_TAG_ATTAINED_FIRST);
	else if (socket_dscp(sk) == host->written[SL_TAG_ATTAINED_FIRST].as)
		set_dscp(ops, sk, 0);
}

SEC("sockops")
int sluice_socket(struct bpf_sock_ops *ops)
{
	const struct host_settings *host = host_with(bpf_get_netns_cookie(ops));
	struct tcp_sock *tp;

	if (!host)
		return 1;
	if (ops->op == BPF_SOCK_OPS_NEEDS_ECN) {
		if (host->control[0] && needs_ecn(ops, host))
			ops->reply = 1;
		return 1;
	}
	tp = tcp_of_ops(ops);
	if (!tp)
		return 1;
	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		if (!socket_dscp((struct sock *)tp))
			carry_tag(ops, (struct sock *)tp, host, SL_TAG_ATTAINED_FIRST);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		if (has_default_control(tp))
			take_control(ops, tp, host);
		begin(ops, tp, host);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		take_control(ops, tp, host);
		begin(ops, tp, host);
		break;
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
