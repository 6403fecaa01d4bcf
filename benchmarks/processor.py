"""Which processor a benchmark ran on, and which instructions its libraries used."""
import os
import platform


def processor():
    "The processor's name, with family and model where its name says little"
    try:
        with open('/proc/cpuinfo', encoding='utf-8') as f: text = f.read().partition('\n\n')[0]
    except OSError: text = ''
    told = {key.strip(): value.strip() for key, _, value in (line.partition(':') for line in text.splitlines())}
    numbers = ', '.join(f'{part} {told[key]}' for part, key in (('family', 'cpu family'), ('model', 'model'))
                        if key in told)
    return f"{told.get('model name') or platform.processor() or platform.machine()}{numbers and f' ({numbers})'}"


def machine():
    "Processor, instruction sets that PyTorch and oneDNN may use, and PyTorch's version"
    import torch
    limit = os.environ.get('ONEDNN_MAX_CPU_ISA', '')
    return f'{processor()}, {torch.backends.cpu.get_cpu_capability()}{limit and f" ({limit})"}, {torch.__version__}'
