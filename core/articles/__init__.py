"""The two source articles: every item as printed, evaluated as written, its physical version, and the check it fails.

`as_printed` evaluates formulas exactly as printed; `printed` lists the figures; `a_memory`, `a_speed`, `a_kernels`,
`b_model`, `b_network` and `b_system` set each item beside its check; `items` has them by key.
Value names are stable: ``trilemma lab published A01 --json`` prints them, and each has a golden value. Never here:
anything that a default prediction uses.

Formulas that only the articles use:

==========  ============================================  =====================================  ======
symbol      meaning                                       function                               source
==========  ============================================  =====================================  ======
1/sum h/B   bandwidth of a mix of memory levels, in turn  hierarchy.serial_bandwidth_byte_s      M1 A04
            when a miss fills the faster levels           hierarchy.filled_bandwidth_byte_s      A04
            when all levels work at once                  hierarchy.overlapped_bandwidth_byte_s  A04
(1+r)^2/4r  by how much a mean of rates is too high       hierarchy.worst_over_estimate          A04
BW_peak     peak of a DRAM bus                            hierarchy.bus_bandwidth_byte_s         A03
BW t        bytes in flight (Little's law)                hierarchy.bytes_in_flight              A03
            bandwidth of a core's open misses             hierarchy.core_bandwidth_byte_s        A03
n_max       largest context that a time allows            limits.max_context_by_latency          B01
n_mem       largest context that memory holds             limits.max_context_by_memory           B01
            importance of cached tokens                   importance.importance                  A10
            which of them stay                            importance.kept_tokens                 A10
            weight of the newest                          importance.age_decay                   A10
theta_j     angles of a rotary embedding                  importance.rotary_frequencies          A10
ds/dD       how a score follows the distance              importance.rotary_score_slope          A10
            its bound at any distance                     importance.rotary_sensitivity          A10
bank        bank of an address                            banks.bank_of                          A11
            with the next bits folded in                  banks.hashed_bank_of                   A11
            banks that a stride visits                    banks.distinct_banks                   A11
            bytes of a block by bank                      banks.bank_loads                       A11
            mean over largest load                        banks.balance                          A11
            share of its region that a block fills        banks.aligned_fill                     A11
            tokens that a layer's region holds            banks.layer_capacity_tokens            A14
            distance between layers                       banks.layer_stride_byte                A14
            elements of a memory line                     banks.line_elements                    B08
            cache laid out in blocks                      banks.blocked                          M3 B08
            and back                                      banks.unblocked                        M3 B08
2BHSDb/8    bytes that a relayout moves                   banks.relayout_byte                    M3 B08
            threads that meet in one bank                 banks.column_conflict_ways             A13
            bytes of a matrix product                     fusion.gemm_byte                       A06
            cycles of moving or working                   fusion.roofline_cycles                 A06
            of a softmax                                  fusion.softmax_cycles                  A06
            of a reshape                                  fusion.reshape_cycles                  A06
            of stages fused into one kernel               fusion.fused_cycles                    A07
            every way to fuse them                        fusion.fusion_plans                    A07
p_i         relaxed choice                                relax.choice_probabilities             A08
-ln(-ln U)  Gumbel noise                                  relax.gumbel_noise                     A08
            mean of a relaxed choice                      relax.relaxed_mean                     A08
            its gradient                                  relax.relaxed_mean_gradient            A08
            time of a memory access                       relax.access_time                      A08
            its gradient                                  relax.access_time_gradient             A08
            the best width, by enumeration                relax.best_width                       A08
            mean time of a relaxed width                  relax.relaxed_access_time              A08
            choice found by gradient descent              relax.descend                          A08
            ridge polynomial                              curve_fit.fit_polynomial               A09
            polynomial and exponential                    curve_fit.fit_decay                    A09
            two straight pieces and their knee            curve_fit.fit_knee                     A12
E|M|_0      expected open gates (hard concrete)           compression.expected_open_gates        B02
step^2/12   error of rounding                             compression.quantisation_mse           B02
            rise of a loss by rounding                    compression.quantisation_loss          B02
            joint loss of pruning and quantisation        compression.joint_loss                 B02
KL(p, q)    divergence of two distributions               compression.kl_divergence              B02
1/(1-s)     most that skipping a share speeds up          compression.skip_speedup_bound         B05
keep+1/b    size of values kept under a bit mask          compression.bitmap_byte_ratio          B05
            where the mask eats the saving                compression.bitmap_break_even_keep     B05
r(in+out)   parameters of a low-rank adapter              compression.adapter_params             B12
            share of trained parameters it saves          compression.adapter_reduction          B12
            bytes of parameters                           compression.params_byte                B12
==========  ============================================  =====================================  ======
"""
