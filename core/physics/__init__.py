"""Formulas of decoding, power, heat, batteries, schedules and clocks: one subject a file, one formula a pure function.

A module here imports `core.spec` and `core.units` only; two subjects meet in `core.predict`. Never here: files,
catalogue entries by name, priors, measurements.

===========  ============================================  =================================  =======
symbol       meaning                                       function                           source
===========  ============================================  =================================  =======
W            bytes of weights streamed per token           traffic.weight_byte                M1 A01
W_pre        bytes of weights that a prompt reads          traffic.prefill_weight_byte        M2
N_idle       weights of experts that a token leaves out    traffic.idle_params                M2
K            bytes of KV cache per cached token            traffic.kv_byte_per_token          M1 A01
n            cached tokens that a layer reads              traffic.cached_tokens              M1
N_w          weights that must be unpacked                 traffic.unpacked_weights           M1
alpha_eff    share of KV bytes that pruning saves          traffic.alpha_effective            M1
F            operations of one decoded token               traffic.decode_flop                M1
F_pre        operations of a prompt                        traffic.prefill_flop               M2
             of them, products with weights                traffic.prefill_linear_flop        M2
             of them, attention                            traffic.prefill_attention_flop     M2
             of a prompt in compiled graphs                traffic.graph_flop                 M2
M            bytes that must fit in memory                 traffic.memory_byte                M1
             sparse over dense bytes of weights            sparsity.sparse_byte_ratio         M1 B02
             share of the weights left out                 sparsity.left_out                  M1 B02
             weights that zero activations make idle       sparsity.skipped_down_params       M1 B05
N_a          parameters of adapters                        adapters.adapter_params            M1 B12
c            time of a byte over that from DRAM            levels.byte_cost                   M1 A04
T            decode time of a token and its terms          latency.decode_parts               M1
max, p, +    overlap of memory and compute                 latency.overlap                    M1
             decode time on the board's own memory         latency.own_pace_s                 M6
dT/dln       gradient of T by its parameters               latency.decode_gradient_s          M10
dlnT/dln     the same of its logarithm                     latency.decode_log_gradient        M10
TTFT         time to the first token and its terms         latency.prefill_parts              M2
w            cost of narrow matrices in a prompt           latency.width_cost                 M2
T_reselect   terms of KV token re-selection                latency.reselection_parts          M4
             bytes that one re-selection reads             traffic.reselection_byte           M4
dTTFT/dln    gradient of TTFT by its parameters            latency.prefill_gradient_s         M10
dlnTTFT/dln  the same of its logarithm                     latency.prefill_log_gradient       M10
exp(-t/tau)  correlation of a drift in time                drift.ornstein_uhlenbeck           M10
z            error one step ahead, and evidence            drift.one_step_ahead               M10
s            likelihood ratio of a shift of the mean       drift.shift_statistic              M10
             spikes that no neighbour confirms             drift.isolated                     M10
             scatter of repeats of one point               drift.repeat_log_sd                M10
             shares of a token's weights by stage          stages.weight_shares               M1
             time of a token by stage of the decoder       stages.stages_s                    M1
             by cost, charged to the side that binds       stages.binding_parts_s             M1
             time until the user has the first token       pipeline.first_token_s             M2 B07
             request whose deliveries wait                 pipeline.serial_request_s          B07
             request whose deliveries overlap              pipeline.pipelined_request_s       B07
             starts of the stages of a chain               pipeline.chain_starts              A15
             end of the last of many items                 pipeline.chain_makespan            A15
II           time between items                            pipeline.initiation_interval       A15
             share of time that each stage works           pipeline.stage_utilisation         A15
             time that the spans of a trace leave open     pipeline.span_gap_s                B07
k            tokens kept                                   pruning.keep_count                 A02
             share of pages still read                     pruning.page_keep_frac             M4
H_n,s        generalised harmonic number                   pruning.harmonic_number            M4
m            attention mass retained (Zipf)                pruning.zipf_retained_mass         M4
m            attention mass retained (measured)            pruning.retained_mass              M4
H            entropy of attention mass                     pruning.entropy                    A05
             of Zipf's law                                 pruning.zipf_entropy               M4
p_j          mass of each key under even causal attention  pruning.causal_column_mass         A05
o - o_S      error of a pruned attention output            pruning.output_error               A02
T(alpha)     pruned token with recomputed layers           pruning.pruned_latency_s           A12
r_max        largest safe prune rate, by mass              pruning.r_max_mass                 A05
             by entropy, for any distribution              pruning.r_max_entropy_bound        A05
             outside the effective support                 pruning.r_max_effective_support    A05
             by mass, of Zipf's law                        pruning.r_max_zipf                 M4
dlnPPL(b)    degradation of weights in b bits              quality.weights_degradation        M5
             degradation of a KV cache in b bits           quality.kv_degradation             M5
dlnPPL(eps)  degradation of pruning                        quality.pruning_degradation        M4
             its median alone                              quality.pruning_median             M4
             sum of independent degradations               quality.added                      M5
PPL/PPL_0    perplexity over the reference's               quality.perplexity_ratio           M5
KLD          mean Kullback-Leibler divergence              quality.mean_kl                    M5
             its scatter about the degradation             quality.kl_log_sd                  M5
top-1        agreement with the reference                  quality.top1_agreement             M5
             retrieval score after pruning                 quality.retrieval_score            M4
BLEU         4-grams of texts in their references          text_scores.bleu                   B01
             tokens of mteval-v13a                         text_scores.tokens_13a             B01
ROUGE-L      longest common subsequence of words           text_scores.rouge_l                B01
PPL          perplexity of tokens                          text_scores.perplexity             M5
KL           from listed tokens, a lower bound             text_scores.top_kl                 M5
             dual loop, drift subtracted                   compensation.compensated           B10
d(1-a)^n     drift left after n steps                      compensation.drift_after           B10
             steps that halve it                           compensation.steps_to_halve        B10
             rounding with its error carried on            compensation.error_feedback        B10
E            energy of a token by bytes moved              power.decode_energy_j              M6
             by bytes moved and time taken                 power.mixed_energy_j               M6
             share of static power                         power.static_share                 M6
8 B e        energy of the DRAM alone                      power.dram_energy_j                M6
             least energy of a board                       power.energy_floor_j               M6
             energy of a token at another bandwidth        power.paced_energy_j               M6
             time of a token under a power limit           power.limited_time_s               M6
             power known to be below a limit               power.below_limit                  M6
P            mean power                                    power.mean_power_w                 M6
             energy under a power trace                    power.trace_energy_j               M6
P_leak       leakage power                                 power.leakage_power_w              M6
T_steady     temperature with leakage                      power.steady_temp_c                M6 B06
             gain of the leakage loop                      power.leakage_loop_gain            B06
W_0          Lambert's W                                   power.lambert_w0                   M6
a C f V^2    switching power of a unit                     power.dynamic_power_w              M6
             energy of a request on one rail               power.request_energy               M6
             energy within a window of a trace             power.window_energy_j              M6
V(f)         voltage of a clock, straight line             dvfs.linear_voltage_v              M7
             of the lowest table row that carries it       dvfs.table_voltage_v               M7
f(V)         clock of a voltage, alpha-power law           dvfs.alpha_power_clock_hz          M7
f V^2        dynamic power relative to the top row         dvfs.relative_dynamic_power        M7
P(f)         power of a clock                              dvfs.power_w                       M7 B04
T(f)         time of a clock                               dvfs.time_s                        M7 B04
f*           clock of least P T^m in closed form           dvfs.optimal_clock_hz              M7 B04
             upper concave hull of a curve                 dvfs.concave_envelope              M7
             height of a curve over its chord              dvfs.kneedle_difference            M7 B04
             knee of a concave curve (Kneedle)             dvfs.kneedle                       M7 B04
             four knees of a table                         dvfs.knees                         M7 B04
tau_i        modes of a thermal ladder (Cauer)             thermal.modes                      M8
A, B         exact step of a ladder                        thermal.zoh                        M8
             longest stable explicit step                  thermal.largest_explicit_step_s    M8
             response of a ladder to a power series        thermal.respond                    M8
y'           first-order lag of a step series              thermal.lag                        M8
             energy that an account leaves open            thermal.balance_error_j            M8
dT(t)        sum of exponentials (Foster)                  thermal.foster_rise_k              M8 B03
C, R         ladder of a sum of exponentials               thermal.ladder_from_foster         M8
             power that holds a temperature limit          thermal.sustained_power_w          M8 B06
T*           last stable temperature                       thermal.runaway_temp_c             B06
P*           power at which it is reached                  thermal.runaway_power_w            B06
             exponentials fitted to a sensor               thermal.fit_foster                 M8
1/|f-m/h|    period at which samples show a load           sampling.seen_period_s             B03
             strongest rhythm of even samples              sampling.strongest_rhythm          B03
alpha        thermal diffusivity                           heatfield.diffusivity_m2_s         B06
             longest stable explicit step                  heatfield.largest_explicit_step_s  B06
             explicit step of a field                      heatfield.explicit_step            B06
G            decay of its slowest mode                     heatfield.explicit_mode_factor     B06
T(x, y)      steady temperature field of a plate           heatfield.steady_field_k           M8
OCV(s)       open-circuit voltage                          battery.chen_rincon_mora_ocv_v     M9
R, C         elements of the same cell                     battery.chen_rincon_mora_elements  M9
             its energy per charge                         battery.chen_rincon_mora_energy_v  M9
             the cell as tables                            battery.chen_rincon_mora_cell      M9
V_j          voltage over an RC element                    battery.rc_voltage_v               M9
E^2/4R       most power a battery delivers                 battery.deliverable_power_w        M9 B06
I(P)         current at constant power                     battery.constant_power_current_a   M9 B06
             run time by Peukert                           battery.peukert_s                  M9 B06
             run time at constant power                    battery.runtime_s                  M9
R(T), Q(T)   a cell at a temperature                       battery.at_temperature             M9
             cells in series and parallel                  battery.pack                       M9
             a pack of a given energy                      battery.pack_of_energy             M9
ES, LS       earliest and latest start, slack              schedule.slack                     M12 A16
             longest path to the end                       schedule.upward_rank               M12
             list schedule with shared bandwidth           schedule.list_schedule             M12 A16
T(1 + g u)   length under load, as printed                 schedule.contended_length_s        A16
             time to move bytes                            schedule.memory_length_s           M12
             time of operations                            schedule.compute_length_s          M12
             the longer of the two                         schedule.roofline_length_s         M12
B            blocking by lower priorities                  realtime.blocking_ns               M12 B09
R_i          worst responses, exact                        realtime.responses                 M12 B09
U            utilisation                                   realtime.utilisation               B09
             rate-monotonic bound                          realtime.liu_layland_bound         B09
             hyperbolic product                            realtime.hyperbolic_product        B09
             worst response by event simulation            realtime.simulate                  M12 B09
             response of an urgent request                 realtime.preemption_response_s     B09
             wait behind kernels, by quantile              realtime.kernel_wait_quantile_s    B09
theta        offset of a clock                             clock.offset_s                     M11 B14
delta        delay, the bound of its error                 clock.delay_s                      M11 B14
             error that unequal ways leave                 clock.asymmetry_error_s            M11 B14
             exchanges of lowest delay                     clock.quickest                     M11
             offset and drift by least squares             clock.fit_line                     M11 B14
             by the lower convex hull                      clock.hull_line                    M11
             by a Kalman filter                            clock.track                        M11
             offsets of a network of clocks                clock.network_offsets_s            M11 B14
             time stamp in six bits                        clock.dscp_of_time                 B15
             times that carry one                          clock.times_of_dscp                B15
             type-of-service byte of a DSCP                clock.tos_byte                     B15
             time to cover a distance                      clock.time_for_distance_s          B14
f            faulty nodes that a group tolerates           consensus.byzantine_faults         B16
q            votes that settle a question                  consensus.quorum                   B16
E[k of n]    mean of the k-th answer                       consensus.kth_exponential_s        M12 B16
             k-th of measured delays                       consensus.kth_delay_s              M12 B16
             one hop of a round                            consensus.one_way_s                B16
             delays of a decision over rounds and hops     consensus.consensus_delay_s        M14 B16
             log-normal from mean and quantile             consensus.lognormal_sd             B16
m, score     margins and score of a scenario               objectives.judge                   B13
             the verdict in words                          objectives.sentence                B13
             excess over a limit in words                  objectives.beyond                  B13
             points that no other dominates                objectives.nondominated            M13 B13
HV           volume that a front dominates                 objectives.hypervolume             M13 B13
===========  ============================================  =================================  =======

`throttle` (control of a hot board) and `discharge` (a battery in time) step the formulas of `thermal` and `battery`.
"""
