"""Linear algebra in any array library: the only folder that names one."""

from onefold.linalg.arrays import (
    Array,
    Device,
    HostArray,
    Index,
    Namespace,
    all_finite,
    device_of,
    double,
    is_foreign,
    is_numpy,
    is_single,
    is_sparse,
    labels_like,
    like,
    like_index,
    namespace,
    on_accelerator,
    ones,
    outer,
    submatrix,
    take_rows,
    to_numpy,
    without_gradient,
    zeros,
)
from onefold.linalg.dense import (
    add_gram,
    add_lower,
    add_to_diagonal,
    cholesky,
    cholesky_solve,
    copied,
    inverse_column_squares,
    invert_lower,
    mirror,
    solve_lower,
    solve_positive,
    subtract_product,
    symmetric_eigh,
)
from onefold.linalg.inplace import (
    clip_in_place,
    in_place,
    product_into,
    zero_diagonal,
)
from onefold.linalg.iterate import Map, Solution, conjugate_gradients
from onefold.linalg.l1 import l1_exponentials, signed_sums
from onefold.linalg.transfer import (
    Uploader,
    free_device_memory,
    free_memory_of,
    inverse_real_fft,
    is_out_of_memory,
    on_device,
    real_fft,
)
