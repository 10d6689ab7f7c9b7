"""Tensors and arrays as kernels take them; what does not fit is named."""

import numpy as np
import pytest
import torch

from tacenda.errors import KernelError
from tacenda.kernels.machinery import arrays, tensors


def test_tensors_on_the_cpu_share_their_memory_with_what_kernels_take():
    tensor = torch.zeros(3, requires_grad=True)
    array = tensors.to_array(tensor)
    array[1] = 5
    assert tensor.tolist() == [0, 5, 0]
    assert tensors.to_array(None) is None
    assert tensors.to_tensor(array).data_ptr() == tensor.data_ptr()
    elsewhere = torch.zeros(3, device="meta")
    assert tensors.to_array(elsewhere).is_meta


def test_arrays_among_tensors_and_other_devices_are_named():
    here = torch.zeros(2)
    assert arrays.common_device(a=here, b=None) == "cpu"
    assert arrays.common_device(a=here.to("meta"), b=here.to("meta")) == "meta"
    with pytest.raises(KernelError, match="b is a ndarray and a a Tensor"):
        arrays.common_device(a=here, b=np.zeros(2))
    with pytest.raises(KernelError, match="b is a Tensor and a a ndarray"):
        arrays.common_device(a=np.zeros(2), b=here)
    with pytest.raises(KernelError, match="b is on meta and a on cpu"):
        arrays.common_device(a=here, b=here.to("meta"))


def test_dtypes_and_layouts_are_told_alike():
    for floats in (np.zeros((2, 3), np.float32), torch.zeros(2, 3)):
        arrays.check_floats(floats, 2, "x")
        arrays.check_array(floats, (2, 3), floats, "x")
        with pytest.raises(
            KernelError, match=r"x must be float32 \(3, 2\) in C order, not float32"
        ):
            arrays.check_array(floats.T, (3, 2), floats, "x")
        with pytest.raises(KernelError, match="in 3 dimensions"):
            arrays.check_floats(floats, 3, "x")
    for other in (np.zeros(2, ">f4"), torch.zeros(2, dtype=torch.bfloat16)):
        with pytest.raises(KernelError, match="float32 or float64"):
            arrays.check_floats(other, 1, "x")
