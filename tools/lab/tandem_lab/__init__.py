"""The lab: network namespaces, emulated air and unmodified servers around one client.

    from tandem_lab import Lab
    with Lab("demo", overrides={"wifi.loss": 0.003}, seed=3) as lab:
        print(lab.download(seconds=10).goodput_mbps)
"""

from .api import Daemon, DownloadResult, Endpoint, Lab
from .errors import BadInput, LabError

__all__ = ["BadInput", "Daemon", "DownloadResult", "Endpoint", "Lab", "LabError"]
