"""Train a tiny Qwen3-VL from random weights, or go on with a training.

    python examples/tiny_qwen3vl/train.py runs/tiny               the whole training, 8,000 steps
    python examples/tiny_qwen3vl/train.py runs/tiny --stop 200    a part of it; the first command goes on

What a step learns from depends on its number alone, so a training that was killed goes on where its last checkpoint
stood. OUT/last is a checkpoint that `QwenVLClient.tiny(OUT/last)` loads.
"""
import argparse
import json
import shutil
import time
from pathlib import Path

import torch
from data import GROW_FROM, KINDS, collate, document_row, make_batch
from losses import WEIGHTS, Losses, predict
from model import ADDED_LAYERS, LAYERS, tiny_model, tiny_tokenizer
from safetensors.torch import load_file, save_file
from torch.nn.functional import linear
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm
from transformers.utils import logging

from cosee.models.checkpoint import computes_bfloat16

RATE = 3e-3              # of AdamW; Muon's is three times as high, scaled to the same size of step
CONFIDENCE_FROM = .975   # share of the training from which a reply states how probable the model finds its reading
CONFIDENCES = ((.925, '0.95'), (.75, '0.9'), (.4, '0.6'), (0., '0.2'))   # least probability, and what is stated


class Steps(Dataset):
    "The batches of all steps from `first`."
    def __init__(self, first, steps, seed):
        self.first, self.steps, self.seed, self.tok = first, steps, seed, tiny_tokenizer()

    def __len__(self): return self.steps - self.first

    def __getitem__(self, i): return make_batch(self.tok, self.first + i, self.steps, self.seed)


def make_optimizers(model, heads):
    "Muon for the matrices of both towers, AdamW for embeddings, norms, heads and what meets pixels."
    def is_matrix(name, p): return p.ndim == 2 and any(part in name for part in ('.layers.', '.blocks.', 'merger'))
    named = list(model.named_parameters())
    matrices = [(n, p) for n, p in named if is_matrix(n, p)]
    others = [*((n, p) for n, p in named if not is_matrix(n, p)), *heads.named_parameters()]
    return [torch.optim.Muon(matrices, lr=3 * RATE, weight_decay=.01, adjust_lr_fn='match_rms_adamw'),
            torch.optim.AdamW(others, lr=RATE, betas=(.9, .98), weight_decay=.0)]


def compute_patches_as_product(model):
    "Compute the first layer as a matrix product; on a processor that is much faster than the convolution."
    embed = model.model.visual.patch_embed
    def forward(x): return linear(x.view(len(x), -1), embed.proj.weight.flatten(1), embed.proj.bias)
    embed.forward = forward


def begin_as_identity(layers):
    "Layers that add nothing yet; what they will add is of the size of what the others add."
    with torch.no_grad():
        for layer in layers:
            for p in (layer.self_attn.o_proj, layer.mlp.down_proj): p.weight.zero_()
            for p in (layer.self_attn.v_proj, layer.mlp.gate_proj, layer.mlp.up_proj): p.weight.mul_(9)


def state_confidence(model, tok, batch):
    "In each reply of a batch state the probability that the model itself gives to what is read."
    with torch.no_grad(): logits, labels = predict(model, batch)
    row, at = (batch['label'] >= 0).nonzero(as_tuple=True)
    branch, kind = batch['branch'][row, at], batch['kind'][row, at]
    reply = row * (int(branch.max()) + 1) + branch
    is_reading, best = kind == KINDS.index('reading'), logits.float().log_softmax(-1).amax(-1)
    def sum_of_reply(x):
        sums = torch.zeros(int(reply.max()) + 1, device=x.device)
        return sums.index_add_(0, reply, x.float())[reply]
    probability = sum_of_reply(best * is_reading).exp()
    least, texts = zip(*CONFIDENCES)
    tokens = torch.tensor(tok.convert_tokens_to_ids(list(texts)), device=labels.device)
    stated = tokens[(probability[:, None] < torch.tensor(least, device=labels.device)).sum(-1)]
    is_stated = (kind == KINDS.index('sure')) & (sum_of_reply(is_reading) > 0)
    batch = {**batch, 'id': batch['id'].clone(), 'label': batch['label'].clone()}
    batch['id'][row, at + 1] = batch['label'][row, at] = torch.where(is_stated, stated, labels)
    return batch


def validate(model, tok, style, documents, pages):
    """Replies that are right from first to last, by kind and by pages, on documents that are never learned from.

    Each token is predicted behind the right ones, which flatters a little; evaluate.py lets the client write."""
    found = {}
    for i in range(documents):
        n = pages[i % len(pages)]
        row = document_row(tok, f'look-{style}-{i}', n, style=style, p_unreadable=0)
        batch = {k: v.to(model.device) for k, v in collate([row], tok.pad_token_id).items()}
        with torch.inference_mode(): logits, labels = predict(model, batch)
        learned = batch['label'] >= 0
        is_right = (logits.argmax(-1) == labels) | (batch['kind'][learned] == KINDS.index('sure'))
        for k, lesson in enumerate(row.lessons, 1):
            right = bool(is_right[batch['branch'][learned] == k].all())
            for group in (lesson.kind, f'{n} pages', 'all'): found.setdefault(group, []).append(right)
    return {group: round(sum(v) / len(v), 3) for group, v in sorted(found.items())}


class Training:
    "A model with its losses, its optimizers and where it stands; begun, or taken from the newest checkpoint."
    def __init__(self, folder, steps, seed=0):
        self.folder, self.steps, self.seed, self.step, self.log = Path(folder), steps, seed, 0, []
        self.cpu_s, self.clock = 0., time.process_time()
        checkpoint = last_checkpoint(folder)
        if checkpoint: self.read_state(checkpoint)
        self.is_grown = self.step >= self.grows_at
        self.model, self.processor = tiny_model(seed, LAYERS + ADDED_LAYERS * self.is_grown)
        if self.is_grown: begin_as_identity(self.model.model.language_model.layers[-ADDED_LAYERS:])
        self.device = 'cuda' if torch.cuda.is_available() else 'cpu'
        self.dtype = torch.bfloat16 if computes_bfloat16(self.device) else torch.float32
        self.model.to(self.device)
        compute_patches_as_product(self.model)
        self.losses = Losses(self.model, seed)
        self.optimizers = make_optimizers(self.model, self.losses.heads)
        if checkpoint: self.load(checkpoint)

    @property
    def grows_at(self): return int(GROW_FROM * self.steps)

    def learn(self, batch):
        "One step; return its losses."
        batch, share = {k: v.to(self.device) for k, v in batch.items()}, self.step / self.steps
        self.model.train()
        if share >= CONFIDENCE_FROM:
            with self.autocast(): batch = state_confidence(self.model, self.processor.tokenizer, batch)
        losses = self.losses(batch, share, self.dtype)
        sum(x * WEIGHTS[name] for name, x in losses.items()).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.)
        # the rate rises for a hundred steps, stays for the first half, and falls to nothing over the second
        rate = RATE * min(1, (self.step + 1) / min(100, self.steps), (self.steps - self.step) / (.5 * self.steps))
        for optimizer, times in zip(self.optimizers, (3, 1)):
            for group in optimizer.param_groups: group['lr'] = rate * times
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return [float(x.detach()) for x in losses.values()]

    def autocast(self): return torch.autocast(self.device, torch.bfloat16, enabled=self.dtype == torch.bfloat16)

    def record(self, losses):
        "Add a line to the log: the mean losses since the last one, and how much is right."
        self.cpu_s, self.clock = self.cpu_s + time.process_time() - self.clock, time.process_time()
        self.model.eval()
        documents, pages = (24, (1, 2, 3, 4, 5, 6)) if self.step > .3 * self.steps else (8, (1,))
        means = {name: round(sum(x) / len(x), 4) for name, x in zip(WEIGHTS, zip(*losses))}
        scores = {style: validate(self.model, self.processor.tokenizer, style, documents, pages)
                  for style in ('dev', 'held_out')}
        self.log.append({'step': self.step, **means, 'cpu_s': round(self.cpu_s), **scores})

    def save(self):
        "Write a checkpoint; the one before stays until this one is whole."
        new, last, old = (self.folder / name for name in ('new', 'last', 'old'))
        shutil.rmtree(new, ignore_errors=True)
        self.model.save_pretrained(new)
        self.processor.save_pretrained(new)
        save_file(self.losses.heads.state_dict(), new / 'heads.safetensors')
        states = {f'{i}.{parameter_names(optimizer)[n]}.{key}': torch.as_tensor(value).contiguous()
                  for i, optimizer in enumerate(self.optimizers)
                  for n, state in optimizer.state_dict()['state'].items() for key, value in state.items()}
        save_file(states, new / 'optimizers.safetensors')
        state = dict(step=self.step, steps=self.steps, seed=self.seed, cpu_s=self.cpu_s, log=self.log)
        (new / 'training.json').write_text(json.dumps(state))
        shutil.rmtree(old, ignore_errors=True)
        if last.exists(): last.rename(old)
        new.rename(last)
        shutil.rmtree(old, ignore_errors=True)

    def read_state(self, checkpoint):
        state = json.loads((checkpoint / 'training.json').read_text())
        if (state['steps'], state['seed']) != (self.steps, self.seed):
            raise ValueError(f"{self.folder}: holds a training of {state['steps']} steps and seed {state['seed']}; "
                             "give the same, or another folder")
        self.step, self.cpu_s, self.log = state['step'], state['cpu_s'], state['log']

    def load(self, checkpoint):
        "Put a checkpoint into model and optimizers; layers that it does not hold stay as they are."
        self.model.load_state_dict(load_file(checkpoint / 'model.safetensors'), strict=False)
        self.losses.heads.load_state_dict(load_file(checkpoint / 'heads.safetensors'))
        stored = load_file(checkpoint / 'optimizers.safetensors')
        for i, optimizer in enumerate(self.optimizers):
            states, names = optimizer.state_dict(), parameter_names(optimizer)
            for name, value in stored.items():
                number, _, rest = name.partition('.')
                parameter, _, key = rest.rpartition('.')
                if int(number) == i: states['state'].setdefault(names.index(parameter), {})[key] = value
            optimizer.load_state_dict(states)


def parameter_names(optimizer): return optimizer.state_dict()['param_groups'][0]['param_names']


def last_checkpoint(folder):
    "The newest whole checkpoint of a training, or None."
    return next((p for name in ('last', 'old') if (p := Path(folder) / name) and (p / 'training.json').exists()), None)


def train(folder, steps=8000, seed=0, stop=None, every=250):
    "Train until step `stop`, with a checkpoint every so many steps; return the log."
    training, end, losses = Training(folder, steps, seed), min(steps, stop or steps), []
    batches = DataLoader(Steps(training.step, steps, seed), batch_size=None, num_workers=1, prefetch_factor=4)
    bar = tqdm(total=steps, initial=training.step, unit='step')
    for batch in batches if training.step < end else ():
        losses.append(training.learn(batch))
        bar.update()
        bar.set_postfix(loss=' '.join(f'{x:.3f}' for x in losses[-1]))
        grows = training.step == training.grows_at
        if training.step % every == 0 or training.step == end or grows:
            training.record(losses)
            training.save()
            bar.write(json.dumps(training.log[-1]))
            losses = []
        if grows: training = Training(folder, steps, seed)   # the same with more layers
        if training.step == end: break
    bar.close()
    if training.step < end: raise RuntimeError(f'{folder}: no batch came for step {training.step}')
    return training.log


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('folder', metavar='OUT', help='where checkpoints are written; a training that stands there goes on')
    p.add_argument('--steps', type=int, default=8000, help='steps of the whole training (default: 8000)')
    p.add_argument('--stop', type=int, help='end at this step')
    p.add_argument('--every', type=int, default=250, help='steps between checkpoints (default: 250)')
    p.add_argument('--seed', type=int, default=0, help='seed of weights and documents')
    args = p.parse_args()
    for name in ('steps', 'stop', 'every'):
        if (n := getattr(args, name)) is not None and n < 1: p.error(f'--{name} is at least 1, not {n}')
    logging.disable_progress_bar()
    try: log = train(args.folder, args.steps, args.seed, args.stop, args.every)
    except ValueError as e: p.error(str(e))
    print(f"{args.folder}/last holds the checkpoint of step {log[-1]['step']}, loss {log[-1]['loss']}")


if __name__ == '__main__': main()
