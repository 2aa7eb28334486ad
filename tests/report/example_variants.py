"""The numbers of the example's variants, by which `example.py` writes runs and `example_trace.py` traces."""

EPOCHS = 6
VALIDATE_EVERY = 2
VALIDATION_CASES = 9
STEPS = {"baseline": 8, "cached": 8, "fast": 4}  # cached: a stage between the two
EPOCH_S = {"baseline": 1.48, "cached": 1.30, "fast": 1.08}
VALIDATION_S = {"baseline": 0.22, "cached": 0.20, "fast": 0.18}
CACHE_FILL_S = {"baseline": 25.0, "cached": 24.5, "fast": 24.0}
# Their product is 1, so that a variant's level is its EPOCH_S, and a ratio theirs.
ROUND_FACTOR = {"baseline": (1.0, 1.01, 1 / 1.01), "cached": (1.01, 1.0, 1 / 1.01), "fast": (1.0, 0.99, 1 / 0.99)}
CONTROL_FACTOR = (1.0, 1.0, 1.0)
DICE_PER_EPOCH = {"baseline": 0.05, "cached": 0.05, "fast": 0.08}
PROFILER_SLOWDOWN = {"timed": 1.0, "profiled": 1.05, "documented": 1.3}
# Seconds of one step's phases; with STEPS they fill EPOCH_S.
PHASES_S = {
    "baseline": {"dataload": 0.090, "forward": 0.030, "backward": 0.050, "update": 0.015},
    "cached": {"dataload": 0.0675, "forward": 0.030, "backward": 0.050, "update": 0.015},
    "fast": {"dataload": 0.010, "forward": 0.080, "backward": 0.150, "update": 0.030},
}
GPU_SHARE = {"baseline": 0.9, "cached": 0.9, "fast": 0.8}
KERNELS = {  # name, group, share of the GPU's time
    "sm90_xmma_wgrad_implicit_gemm_f16f16_f32_nhwckrsc_tilesize128x64": ("convolution weight gradient", 0.4),
    "sm90_xmma_fprop_implicit_gemm_f16f16_f32_tilesize128x128": ("convolution forward", 0.3),
    "void cudnn::bn_bw_1C11_kernel_new<float, float>": ("batch norm", 0.2),
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor>": ("elementwise", 0.1),
}
KERNELS_PER_PHASE = 40
NS = 1_000_000_000
