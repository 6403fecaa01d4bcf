"Build and install CoSee. Everything that may change is read from settings.ini."
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

root = Path(__file__).parent
config = ConfigParser(delimiters=["="], interpolation=None)
config.read(root / "settings.ini", encoding="utf-8")
cfg = config["DEFAULT"]

# `extras_ray = ray>=2` in settings.ini becomes `pip install cosee[ray]`; `all` takes them together.
extras = {key[len("extras_"):]: value.split() for key, value in cfg.items() if key.startswith("extras_")}
extras["all"] = sorted({req for reqs in extras.values() for req in reqs})
extras["book"] = cfg["dev_requirements"].split()   # what tests and most notebooks use, without PyTorch
extras["dev"] = cfg["dev_requirements"].split() + extras["all"]  # whoever builds CoSee runs every part of it

setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    long_description=(root / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author=cfg["author"],
    author_email=cfg["author_email"],
    url=cfg["git_url"],
    project_urls={"Security": cfg["git_url"] + "/blob/main/SECURITY.md"},
    license="Apache-2.0",
    keywords=cfg["keywords"].split(),
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Natural Language :: English",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Typing :: Typed",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    python_requires=">=" + cfg["min_python"],
    packages=find_packages(include=["cosee", "cosee.*"]),
    package_data={"cosee": cfg["package_data"].split()},
    install_requires=cfg["requirements"].split(),
    extras_require=extras,
    entry_points={"console_scripts": cfg["console_scripts"].split(), "nbdev": ["cosee=cosee._modidx:d"],
                  "inspect_ai": ["cosee=cosee.cli.inspect_plugin"]},
    zip_safe=False,
)
