"""Every formula of the engine: what it is, where it is, where it comes from.

M.. are the models, A.. and B.. the quantities of the two source articles, as the docstrings cite them.

=============  ================================================  =================================  ======
symbol         meaning                                           function                           source
=============  ================================================  =================================  ======
W              bytes of weights streamed per token               traffic.weight_byte                M1 A01
K              bytes of KV cache per cached token                traffic.kv_byte_per_token          M1 A01
alpha_eff      share of KV bytes that pruning saves              traffic.alpha_effective            M1
F              operations of one decoded token                   traffic.decode_flop                M1
F_pre          operations of a prompt                            traffic.prefill_flop               M2
               of them, products with weights                    traffic.prefill_linear_flop        M2
               of them, attention                                traffic.prefill_attention_flop     M2
M              bytes that must fit in memory                     traffic.memory_byte                M1
T              decode time of a token and its terms              latency.decode_parts               M1
max, p, +      overlap of memory and compute                     latency.overlap                    M1
dlnT/dln       how T follows its parameters                      latency.decode_log_gradient        M10
TTFT           time to the first token and its terms             latency.prefill_parts              M2
dlnTTFT/dln    how TTFT follows its parameters                   latency.prefill_log_gradient       M10
k              tokens kept                                       pruning.keep_count                 A02
               share of pages still read                         pruning.page_keep_frac             M4
H_n,s          generalised harmonic number                       pruning.harmonic_number            M4
m              attention mass retained (Zipf)                    pruning.zipf_retained_mass         M4
m              attention mass retained (measured)                pruning.retained_mass              M4
H              entropy of attention mass                         pruning.entropy                    A05
               of Zipf's law                                     pruning.zipf_entropy               M4
p_j            mass of each key under even causal attention      pruning.causal_column_mass         A05
o - o_S        error of a pruned attention output                pruning.output_error               A02
r_max          largest safe prune rate, by mass                  pruning.r_max_mass                 A05
               by entropy, for any distribution                  pruning.r_max_entropy_bound        A05
               outside the effective support                     pruning.r_max_effective_support    A05
               by mass, of Zipf's law                            pruning.r_max_zipf                 M4
dlnPPL(b)      damage of weights in b bits                       quality.weights_damage             M5
               damage of a KV cache in b bits                    quality.kv_damage                  M5
dlnPPL(eps)    damage of pruning                                 quality.pruning_damage             M4
               independent damages together                      quality.added                      M5
PPL/PPL_0      perplexity over the reference's                   quality.perplexity_ratio           M5
KLD            mean Kullback-Leibler divergence                  quality.mean_kl                    M5
top-1          agreement with the reference                      quality.top1_agreement             M5
               retrieval score after pruning                     quality.retrieval_score            M4
E              energy of a token by bytes moved                  power.decode_energy_j              M6
8 B e          energy of the DRAM alone                          power.dram_energy_j                M6
               least energy of a board                           power.energy_floor_j               M6
P              mean power                                        power.mean_power_w                 M6
               energy under a power trace                        power.trace_energy_j               M6
P_leak         leakage power                                     power.leakage_power_w              M6
T_steady       temperature with leakage                          power.steady_temp_c                M6 B06
               gain of the leakage loop                          power.leakage_loop_gain            B06
W_0            Lambert's W                                       power.lambert_w0                   M6
=============  ================================================  =================================  ======

Above them: `parameters` (what measurements teach, and its priors), `accuracy` (damages put together), `scenario` (an
operating point to its prediction), `measured`, `robust`, `calibrate`, `crosscheck` (measurements to a posterior, and
how far to trust it), `design` and `explore` (what to measure next, what limits a point), `load` and `gguf_header`
(resources and model files), `spec` and `units` (the vocabulary).
"""
