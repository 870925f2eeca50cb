"""Configurations as users of ML-Agents 0.16 (one file each) and 0.17 (`PARTED`) had them."""

from pathlib import Path

FLAT, CURRICULUM, SAMPLERS, PARTED = (
    (Path(__file__).parent / "old_configurations" / f"{name}.yaml").read_text(encoding="utf-8")
    for name in ("flat", "curriculum", "samplers", "parted")
)
