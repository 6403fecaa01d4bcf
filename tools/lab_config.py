"""JupyterLab for this repository: it opens on the index, notebooks are cleaned as they are saved, and it asks nobody
for news."""
from pathlib import Path

from nbdev.clean import clean_jupyter

c = get_config()  # noqa: F821
c.ServerApp.root_dir = str(Path(__file__).resolve().parent.parent)
c.LabApp.default_url = "/lab/tree/nbs/index.ipynb"
c.ContentsManager.pre_save_hook = clean_jupyter
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
