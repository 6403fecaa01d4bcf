"""Which processor a benchmark ran on, and which instructions its libraries used."""
import os


def machine():
    "Processor, instruction sets that PyTorch and oneDNN may use, and PyTorch's version"
    import torch
    from cosee.models.checkpoint import processor_name
    limit = os.environ.get('ONEDNN_MAX_CPU_ISA', '')
    capability = torch.backends.cpu.get_cpu_capability()
    return f'{processor_name()}, {capability}{limit and f" ({limit})"}, {torch.__version__}'
