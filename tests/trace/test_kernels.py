"""Names as they stand in traces of cuDNN, cuBLAS, CUTLASS, PyTorch, its compiler, cub and NCCL."""

import numpy as np
import pandas as pd
import pytest

from speedproof.trace.intervals import Intervals
from speedproof.trace.kernel_groups import group_of, sum_kernels, uses_tensor_cores


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tensor16x8x16", "convolution forward"),
        ("sm80_xmma_dgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32", "convolution data gradient"),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32", "convolution weight gradient"),
        ("void cudnn::cnn::wgrad_alg0_engine<float, 512, 6, 5>(int)", "convolution weight gradient"),
        ("void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s16816dgrad_optimized>", "convolution data gradient"),
        ("void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1>(int, int, int)", "convolution forward"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct)", "batch norm"),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)", "batch norm"),
        ("void at::native::batch_norm_collect_statistics_kernel<at::native::InvStd, float, float, float, int>()", "batch norm"),
        ("void cudnn::ops::nchwToNhwcKernel<__half, __half, float>", "layout change"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", "elementwise"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", "reduction"),
        ("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>", "copy and cast"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", "fill"),
        ("void at::native::<unnamed>::multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>", "optimizer"),
        ("void <unnamed>::softmax_warp_forward<float, float, float, 1, true, false>(float *, const float *, int)", "softmax"),
        ("void at::native::<unnamed>::nll_loss2d_forward_kernel<float, float, long>(float *)", "loss"),
        ("void at::native::<unnamed>::indices_of_rows<float>(float *)", "other"),
        ("void at::native::<unnamed>::max_pool3d_with_indices_single_out_frame<float>()", "pooling and resampling"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", "matrix product"),
        ("void cub::DeviceRadixSortSingleTileKernel<cub::Policy, false, float, long>(float *)", "sort, search and index"),
        ("triton_poi_fused_native_batch_norm_backward_4", "batch norm"),
        ("norm_sum_statistics", "batch norm"),
        ("norm_finish_gradients", "batch norm"),
        ("norm_apply", "batch norm"),
        ("norm_pass_gradient", "batch norm"),
        ("conv_windows_times_weights", "few-channel convolution"),
        ("conv_windows_times_results", "few-channel convolution"),
        ("conv_neighbours_times_weights", "few-channel convolution"),
        ("conv_windows_to_cells", "few-channel convolution"),
        ("conv_windows_times_cells", "few-channel convolution"),
        ("conv_runs_halve", "few-channel convolution"),
        ("weights_spread", "few-channel convolution"),
        ("weights_sum", "few-channel convolution"),
        ("weights_gather", "few-channel convolution"),
        ("channels_move", "copy and cast"),
        ("dice_ce_sum_terms", "loss"),
        ("dice_ce_finish", "loss"),
        ("dice_ce_pass_gradient", "loss"),
        ("crop_patches", "sort, search and index"),
        ("crop_place_patches", "sort, search and index"),
        ("triton_poi_fused_add_mul_3", "elementwise"),
        ("triton_red_fused_sum_5", "reduction"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)", "communication"),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", "attention"),
        (
            "void tensorTransformGeneric<float, float, float, (bool)1>(cudnnTensorTransformStruct, int *indexMap)",
            "layout change",
        ),
        (
            "void at::native::<unnamed>::write_indices<long>(long *, at::native::<unnamed>::TensorDims<T1>)",
            "sort, search and index",
        ),
        ("void at::native::<unnamed>::masked_fill_kernel(at::TensorIterator &)", "sort, search and index"),
        ("void at::native::<unnamed>::masked_scale_kernel<bool, c10::Half, float>(at::Tensor &)", "random numbers"),
        ("void at::native::<unnamed>::RowwiseMomentsCUDAKernel<float>(long, T1)", "instance, layer or group norm"),
        ("void at::native::<unnamed>::ComputeBackwardFusedParamsCUDAKernel<float>(long)", "instance, layer or group norm"),
        ("void at::native::<unnamed>::ComputeInternalGradientsCUDAKernel<float>(long)", "instance, layer or group norm"),
        ("my_kernel", "other"),
    ],
)
def test_group_is_told_from_the_name(name, group):
    assert group_of(name) == group


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tensor16x8x16", True),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn", True),
        (
            "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
            True,
        ),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", True),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nhwc_simt_small", False),
        ("ampere_sgemm_128x64_nn", False),
        ("void implicit_convolveNd_sgemm<__half, (int)3, (int)128, (int)5>(int, int, int, const T1 *)", False),
        ("void at::native::reduce_kernel<512, 1>", None),
    ],
)
def test_tensor_cores_are_told_from_the_name(name, expected):
    assert uses_tensor_cores(name) is expected


def test_kernels_are_summed_and_sorted():
    calls = pd.DataFrame(
        {"start_ns": [0, 10, 30, 40], "end_ns": [5, 20, 31, 44], "name": pd.Categorical(["b", "a_gemm", "b", "b"])}
    )
    # Two epochs that count: what begins before, between and at the end of them does not.
    table = sum_kernels(calls, Intervals(np.array([8, 30]), np.array([12, 40])))
    assert table[["group", "name", "calls", "total_ns", "seconds_per_epoch"]].values.tolist() == [
        ["matrix product", "a_gemm", 1, 10, 5e-9],
        ["other", "b", 3, 10, 0.5e-9],
    ]
    assert sum_kernels(calls, Intervals(np.array([]), np.array([])))["seconds_per_epoch"].tolist() == [0, 0]
