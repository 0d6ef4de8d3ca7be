// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The setsockopt() of include/sluice.h: every process of a cgroup tells the kernel of its flows, and reads how they fare.
 *
 *   set SLUICE_FLOW    check all of it; make room; select the control; only then write: a refusal changes nothing
 *   get SLUICE_FLOW    what was told, times as they are now
 *   get SLUICE_STATE   as the congestion control left it; bytes counted here, so that they are right under any control
 *
 * Both run with the socket locked. Options of other levels pass untouched. Several instances may be attached, by agents
 * that do not know of each other: who comes second finds the call dealt with and stays out of it.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "flow.bpf.h"

/* Macros of the kernel's, so not in BTF. */
#define EPERM 1
#define ENOMEM 12
#define EINVAL 22
#define ENOPROTOOPT 92
#define EOPNOTSUPP 95
#define AF_INET 2
#define AF_INET6 10
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_ECN_OK 0x1
#define TCP_CONG_NEEDS_ECN 0x2
#define SEND_SHUTDOWN 2
#define CAP_NET_ADMIN 12

/* The kernel hands the programs no more of a value than this, and wants to be told to use the whole one itself. */
#define SEEN_BYTES_MAX 4096

#define HANDLED (-1) /* as optlen: the kernel has nothing left to do */

_Static_assert(sizeof(struct sluice_flow) == 56, "as documented");
_Static_assert(sizeof(struct sluice_state) == 64, "as documented");

/*
 * The kernel's own socket, to be read field by field with bpf_probe_read_kernel(). The verifier allows no arithmetic on the
 * pointer in the context; read from the stack it is a plain number. Only for sockets that may_carry_flows().
 */
static __always_inline struct tcp_sock *tcp_of(struct bpf_sock *sk)
{
	struct tcp_sock *tp = NULL;

	bpf_probe_read_kernel(&tp, sizeof(tp), &sk);
	return tp;
}

/* The value, when it has this many bytes at least. */
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

/* Not connecting yet, be it that TCP Fast Open holds the SYN back for the first data. */
static __always_inline int unconnected(struct tcp_sock *tp, __u32 state)
{
	return state == TCP_CLOSE || (state == TCP_SYN_SENT && !BPF_CORE_READ(tp, packets_out));
}

/* bytes_acked counts the SYN of who connects: there the first byte of all is byte 1. */
static __always_inline __u64 next_byte(struct tcp_sock *tp, __u32 state)
{
	if (unconnected(tp, state))
		return 1;
	return BPF_CORE_READ(tp, bytes_acked) + (__u32)(BPF_CORE_READ(tp, write_seq) - BPF_CORE_READ(tp, snd_una));
}

/* It counts the FIN as well. An orderly end leaves no error behind. */
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

/* ---- what may be told */

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

/* ---- the congestion control */

static __always_inline int same_name(const char *a, const char *b)
{
	for (int i = 0; i < SLUICE_CONTROL_BYTES; i++) {
		if (a[i] != b[i])
			return 0;
		if (!a[i])
			return 1;
	}
	return 1;
}

static __always_inline const struct tcp_congestion_ops *control_of(struct tcp_sock *tp)
{
	return BPF_CORE_READ((struct inet_connection_sock *)tp, icsk_ca_ops);
}

static __always_inline void control_name(const struct tcp_congestion_ops *ops, char name[SLUICE_CONTROL_BYTES])
{
	bpf_probe_read_kernel(name, SLUICE_CONTROL_BYTES, ops->name);
}

static __always_inline int is_ours(const char *name)
{
	const char prefix[] = "sluice_";

	for (unsigned int i = 0; i < sizeof(prefix) - 1; i++)
		if (name[i] != prefix[i])
			return 0;
	return 1;
}

static __always_inline struct net *net_of(struct tcp_sock *tp)
{
	return BPF_CORE_READ((struct sock *)tp, __sk_common.skc_net.net);
}

static __always_inline int caller_is_net_admin(struct tcp_sock *tp)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	kernel_cap_t capabilities = BPF_CORE_READ(task, cred, cap_effective);

	return BPF_CORE_READ(task, cred, user_ns) == BPF_CORE_READ(net_of(tp), user_ns) &&
	       *(__u64 *)&capabilities >> CAP_NET_ADMIN & 1;
}

/*
 * The kernel trusts BPF programs with controls that it does not give to just any program. So this asks what TCP_CONGESTION
 * would: ours, the socket's and the namespace's own are for everybody.
 */
static __always_inline int may_select(struct tcp_sock *tp, const char *name)
{
	char known[SLUICE_CONTROL_BYTES];

	if (is_ours(name))
		return 1;
	control_name(control_of(tp), known);
	if (same_name(name, known))
		return 1;
	control_name(BPF_CORE_READ(net_of(tp), ipv4.tcp_congestion_control), known);
	return same_name(name, known) || caller_is_net_admin(tp);
}

/*
 * A control that needs ECN, on a connection that goes without, gives way to Reno in its `init` (cc_fell_back). The kernel
 * does not let it while it is being selected from here: make up for it.
 */
static __always_inline void without_ecn_use_reno(struct bpf_sock *sk, struct tcp_sock *tp, __u32 state)
{
	char reno[] = "reno";

	if (state != TCP_CLOSE && state != TCP_SYN_SENT && !(BPF_CORE_READ(tp, ecn_flags) & TCP_ECN_OK) &&
	    BPF_CORE_READ(control_of(tp), flags) & TCP_CONG_NEEDS_ECN)
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

static __always_inline int select_control(struct bpf_sock *sk, struct tcp_sock *tp, __u32 state, char *name)
{
	if (!may_select(tp, name))
		return -EPERM;
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, SLUICE_CONTROL_BYTES))
		return -EINVAL;
	without_ecn_use_reno(sk, tp, state);
	return 0;
}

/* ---- set */

static __always_inline void remember(struct socket_flow *to, const struct sluice_flow *f, __u64 first_byte,
				     __u64 now_ns)
{
	__builtin_memset(to, 0, sizeof(*to));
	to->told.fields = f->fields & ~SLUICE_HAS_CONTROL;
	to->told.quench = f->quench;
	to->told.size_bytes = f->size_bytes;
	to->told.start_ns = now_ns - f->elapsed_ns;
	to->told.deadline_ns = f->fields & SLUICE_HAS_DEADLINE ? now_ns + f->deadline_ns : 0;
	to->told.first_byte = first_byte;
	to->told.importance_milli = f->importance_milli;
	to->told.importance_share_milli = f->importance_share_milli;
}

static __always_inline int tell(struct bpf_sockopt *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	__u64 now_ns = bpf_ktime_get_ns();
	const struct sluice_flow *value;
	struct socket_flow *known;
	struct sluice_flow flow;
	struct tcp_sock *tp;
	__u32 state;
	int code;

	if (!sk || !may_carry_flows(sk))
		return -EOPNOTSUPP;
	if (ctx->optname != SLUICE_FLOW)
		return -ENOPROTOOPT;
	value = value_of(ctx, sizeof(flow));
	if (ctx->optlen != sizeof(flow) || !value)
		return -EINVAL;
	flow = *value;
	if (is_wrong(&flow, now_ns))
		return -EINVAL;
	known = bpf_sk_storage_get(&sluice_flow_1, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!known)
		return -ENOMEM;
	tp = tcp_of(sk);
	state = sk->state;
	if (flow.fields & SLUICE_HAS_CONTROL) {
		code = select_control(sk, tp, state, flow.control);
		if (code)
			return code;
	}
	remember(known, &flow, next_byte(tp, state), now_ns);
	return 0;
}

SEC("cgroup/setsockopt")
int sluice_set(struct bpf_sockopt *ctx)
{
	int code;

	if (ctx->level != SOL_SLUICE) {
		if (ctx->optlen > SEEN_BYTES_MAX)
			ctx->optlen = 0;
		return 1;
	}
	if (ctx->optlen == HANDLED)
		return 1;
	code = tell(ctx);
	ctx->optlen = HANDLED;
	if (!code)
		return 1;
	bpf_set_retval(code);
	return 0;
}

/* ---- get */

static __always_inline void recall(struct sluice_flow *f, const struct told *told, __u64 now_ns)
{
	f->fields = told->fields;
	f->quench = told->quench;
	f->size_bytes = told->size_bytes;
	f->importance_milli = told->importance_milli;
	f->importance_share_milli = told->importance_share_milli;
	if (told->fields & SLUICE_HAS_DEADLINE) {
		f->deadline_ns = told->deadline_ns - now_ns;
		f->elapsed_ns = now_ns - told->start_ns;
	}
}

static __always_inline int answer_flow(struct bpf_sockopt *ctx, const struct socket_flow *known)
{
	struct sluice_flow *f = value_of(ctx, sizeof(*f));

	if (!f)
		return -EINVAL;
	__builtin_memset(f, 0, sizeof(*f));
	if (known)
		recall(f, &known->told, bpf_ktime_get_ns());
	f->fields |= SLUICE_HAS_CONTROL;
	control_name(control_of(tcp_of(ctx->sk)), f->control);
	ctx->optlen = sizeof(*f);
	return 0;
}

static __always_inline int answer_state(struct bpf_sockopt *ctx, const struct socket_flow *known)
{
	struct sluice_state *s = value_of(ctx, sizeof(*s));

	if (!s)
		return -EINVAL;
	__builtin_memset(s, 0, sizeof(*s));
	if (known) {
		*s = known->state;
		s->acked_bytes = acked_bytes(tcp_of(ctx->sk), ctx->sk->state, known->told.first_byte);
	}
	ctx->optlen = sizeof(*s);
	return 0;
}

static __always_inline int answer(struct bpf_sockopt *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct socket_flow *known;

	if (!sk || !may_carry_flows(sk))
		return -EOPNOTSUPP;
	known = bpf_sk_storage_get(&sluice_flow_1, sk, NULL, 0);
	if (ctx->optname == SLUICE_FLOW)
		return answer_flow(ctx, known);
	if (ctx->optname == SLUICE_STATE)
		return answer_state(ctx, known);
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
	if (ctx->retval) /* the kernel knows no such level: nobody has answered yet */
		bpf_set_retval(answer(ctx));
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
