"""Lanista: the repository's root is the package `lanista`."""

import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "_version.py").read_text())[1]  # type: ignore[index]
FOLDERS = ["envs", "agent_processor", "trainers", "config"]
SITE = ["furo", "myst-parser>=4.0", "sphinx>=8.0", "sphinx-copybutton>=0.5", "sphinx-design>=0.6"]
PACKAGES = [
    "lanista",
    *(f"lanista.{name}" for name in find_packages(include=[*FOLDERS, *(f"{f}.*" for f in FOLDERS)])),
]


class BuildPy(build_py):
    """Leaves this script out of the package, whose root is the repository's."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """The modules of a package, as (package, module, file)."""
        found: list[tuple[str, str, str]] = super().find_package_modules(package, package_dir)
        return [module for module in found if module[:2] != ("lanista", "setup")]


setup(
    name="lanista",
    cmdclass={"build_py": BuildPy},
    version=VERSION,
    description="Trains agents that live in game engines: a fast drop-in for mlagents-learn.",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    keywords="reinforcement learning, multi-agent, Unity, ML-Agents, Godot, Unreal, PyTorch, ONNX",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    package_dir={"lanista": "."},
    packages=PACKAGES,
    package_data={
        "lanista": ["py.typed"],
        "lanista.envs.godot": [f"addon/{name}" for name in ("**/*.gd", "*.cfg", "*.md", "*.svg", "LICENSE")],
        "lanista.envs.protocol": ["proto/**/*.proto", "*.binpb"],
        "lanista.config": ["**/*.yaml", "pretrained/*/*.md", "pretrained/*/*.onnx"],
        "lanista.trainers.tools.report": ["*.css", "*.js"],
    },
    install_requires=[
        "argcomplete>=3.1.6",
        "distlib>=0.3.7; platform_system == 'Windows'",
        "filelock>=4.0",
        "mlagents-envs>=0.28",
        "numpy>=1.26",
        "torch>=2.4",
        "onnx>=1.16",
        "onnxruntime>=1.18",
        "grpcio>=1.60",
        "hpack>=4.0",
        "protobuf>=5.26",
        "pydantic>=2.10",
        "pyyaml>=6.0",
        "tensorboard>=2.16",
        "rich>=13.0",
        "pillow>=10.0",
        "platformdirs>=2.5",
        "pooch>=1.6",
        "psutil>=6.0",
    ],
    extras_require={
        "gymnasium": ["gymnasium>=0.29"],
        "pettingzoo": ["pettingzoo>=1.24"],
        "hub": ["huggingface_hub>=0.20"],
        "mlflow": ["mlflow-skinny>=2.9"],
        "plot": ["matplotlib>=3.7"],
        "safetensors": ["safetensors>=0.4"],
        "sweep": ["matplotlib>=3.7", "optuna>=4.0"],
        "video": ["imageio-ffmpeg>=0.4.9"],
        "wandb": ["wandb>=0.16"],
        "ray": ["cryptography>=42", "ray>=2.49"],
        "relay": ["cryptography>=42"],
        "docs": SITE,
        "dev": [
            *SITE,
            "build>=1.0",
            "check-jsonschema>=0.29",
            "cryptography>=42",
            "distlib>=0.3.7",
            "grpcio-tools",
            "gymnasium>=0.29",
            "hypothesis",
            "ipykernel>=6.29",
            "jupytext>=1.16",
            "matplotlib",
            "mpe2",
            "mypy",
            "nbclient>=0.10",
            "optuna>=4.0",
            "pettingzoo>=1.24",
            "pytest",
            "pytest-xdist",
            "ray>=2.49",
            "ruff",
            "safetensors>=0.4",
            "scipy>=1.15",
            "setuptools>=77",
            "twine>=6.1",
            "types-protobuf",
            "types-psutil",
            "types-PyYAML",
        ],
    },
    entry_points={
        "console_scripts": [
            "lanista-learn=lanista.trainers.console:lanista_learn",
            "lanista=lanista.trainers.console:lanista",
        ],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Topic :: Games/Entertainment",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
