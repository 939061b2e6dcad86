"""Opens the kernel libraries of tk and calls them; replays an L2 cache (cpp/bindings)."""

from collections.abc import Sequence
from typing import final

@final
class Library:
    """A kernel library opened by its path.

    Raises OSError, naming the path, when it cannot be loaded or belongs to another version.
    """

    def __init__(self, path: str) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def architecture(self) -> str:
        """ "host" or "sm90": what the library was built for."""
    def matmul_instances(self) -> list[dict[str, object]]:
        """The table of matrix product instances, dtype, majors and loader as words."""
    def attention_instances(self) -> list[dict[str, object]]:
        """The table of attention instances, dtype and scores ("plain", "general") as words."""
    def rotary_instances(self) -> list[dict[str, object]]:
        """The table of the rotation's instances, dtype as a word."""
    def order_tile(
        self, kind: int, param: int, rows: int, cols: int, index: int, table: int = 0
    ) -> tuple[int, int]:
        """(row, column) of the tile that an order visits at `index` of a grid of tiles."""

@final
class MatmulCall:
    """A matrix product with sizes, strides (in elements) and plan fixed.

    The fields are those of tk_matmul_problem (cpp/kernels/gemm/matmul_api.h).
    """

    def __init__(
        self,
        library: Library,
        *,
        m: int,
        n: int,
        k: int,
        batch: int,
        a_strides: Sequence[int],
        b_strides: Sequence[int],
        c_strides: Sequence[int],
        out_strides: Sequence[int],
        bias_stride: int,
        c_dtype: int,
        bias_dtype: int,
        out_dtype: int,
        activation: int,
        alpha: float,
        beta: float,
        instance: int,
        num_stages: int,
        cluster_m: int,
        cluster_n: int,
        order_kind: int,
        order_param: int,
        splits: int,
        grid: int,
        device: int,
        swapped: int = 0,
        dynamic: int = 0,
        splits_in_cluster: int = 0,
    ) -> None: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def num_counters(self) -> int: ...
    def __call__(
        self,
        a: int,
        b: int,
        c: int,
        bias: int,
        out: int,
        order_table: int,
        workspace: int,
        counters: int,
        stream: int,
    ) -> None:
        """Runs the product on these addresses (0 for none) and this stream.

        Raises RuntimeError with the library's words.
        """

@final
class AttentionCall:
    """Attention with sizes, strides (in elements) and plan fixed.

    The fields are those of tk_attention_problem (cpp/kernels/attention/attention_api.h).
    """

    def __init__(
        self,
        library: Library,
        *,
        batch: int,
        heads: int,
        kv_heads: int,
        queries: int,
        keys: int,
        head_dim: int,
        value_dim: int,
        total_queries: int,
        total_keys: int,
        packed: bool,
        q_strides: Sequence[int],
        k_strides: Sequence[int],
        v_strides: Sequence[int],
        out_strides: Sequence[int],
        lse_strides: Sequence[int],
        alibi_strides: Sequence[int],
        bias_strides: Sequence[int],
        bias_dtype: int,
        causal: bool,
        window_left: int,
        window_right: int,
        scale: float,
        softcap: float,
        instance: int,
        num_stages: int,
        grid: int,
        device: int,
        order_kind: int,
        order_param: int,
        longest_first: bool,
        dynamic: bool,
        turns: bool,
        pack_heads: bool,
        splits: int,
    ) -> None: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def num_counters(self) -> int: ...
    def __call__(
        self,
        q: int,
        k: int,
        v: int,
        out: int,
        lse: int,
        cu_seqlens_q: int,
        cu_seqlens_k: int,
        alibi_slopes: int,
        bias: int,
        workspace: int,
        counters: int,
        stream: int,
    ) -> None:
        """Runs attention on these addresses (0 for none) and this stream.

        Raises RuntimeError with the library's words.
        """

@final
class RotaryCall:
    """The rotation with sizes, strides (in elements) and plan fixed.

    The fields are those of tk_rotary_problem (cpp/kernels/rotary/rotary_api.h).
    """

    def __init__(
        self,
        library: Library,
        *,
        batch: int,
        rows: int,
        head_dim: int,
        rotary_dim: int,
        table_rows: int,
        q_heads: int,
        k_heads: int,
        q_strides: Sequence[int],
        q_out_strides: Sequence[int],
        k_strides: Sequence[int],
        k_out_strides: Sequence[int],
        cos_strides: Sequence[int],
        sin_strides: Sequence[int],
        table_dtype: int,
        position_bytes: int,
        position_strides: Sequence[int],
        offset: int,
        sequences: int,
        interleaved: bool,
        inverse: bool,
        in_place: bool,
        instance: int,
        heads_per_task: int,
        groups_first: bool,
        grid: int,
        device: int,
    ) -> None: ...
    def __call__(
        self,
        q: int,
        k: int,
        cos: int,
        sin: int,
        positions: int,
        cu_seqlens: int,
        q_out: int,
        k_out: int,
        stream: int,
    ) -> None:
        """Runs the rotation on these addresses (0 for none) and this stream.

        Raises RuntimeError with the library's words.
        """

def replay_l2(
    *,
    order_kind: int,
    order_param: int,
    order_table: Sequence[int],
    rows: int,
    cols: int,
    batch: int,
    splits: int,
    k_tiles: int,
    k_step: int,
    a_bytes: int,
    b_bytes: int,
    out_bytes: int,
    sum_bytes: int,
    delays: Sequence[int],
    near: Sequence[int],
    partitions: int,
    capacity: int,
    by_wave: bool,
) -> tuple[list[int], list[int], list[list[int]]]:
    """tk.schedulers.l2_reference.replay, compiled: takes the fields of its L2Work.

    Returns those of its L2Counts in three parts: loads, sums and outputs, waves. Raises ValueError
    when a number is out of range.
    """
