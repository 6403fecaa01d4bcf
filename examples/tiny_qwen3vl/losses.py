"""What the model is told about its mistakes.

A model of two million parameters does not find out by itself that there are letters on the pages, on which line to
look, or which letter of a note is wrong. Beside the loss of the replies stand six others; two of them have heads of
their own, which are not part of the model, and the others use what the model has.
"""
import torch
from data import IGNORE, LETTERS, RIGHT, SLOTS, WRONG, pixel_values
from model import LAYERS
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, linear, pad, rms_norm
from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb

# name in the log -> weight
WEIGHTS = dict(loss=1., letters=1., look=.3, verdict=1., meant=.3, match=.5, point=.3)
LOOK_FROM, VERDICT_FROM = .107, .36   # shares of the training from which these two are taught
LOOK_LAYER = 2                        # whose first head looks


def predict(model, batch):
    "Logits and labels at each place where something is learned."
    hidden = model.model(input_ids=batch['id'], attention_mask=batch['mask'], position_ids=batch['position'],
                         pixel_values=pixel_values(batch['patches']), image_grid_thw=batch['image_grid_thw'],
                         use_cache=False).last_hidden_state
    learned = batch['label'] != IGNORE
    return model.lm_head(hidden[learned]), batch['label'][learned]


def weighted_mean(losses, weights): return (losses * weights).sum() / weights.sum().clamp(min=1.)


def attention_inputs(attention):
    "Queries and keys of the first head in the last pass, shapes (rows, length, channels)."
    (x, (cos, sin)), d = attention.inputs, attention.head_dim
    q = attention.q_norm(linear(x, attention.q_proj.weight[:d]))[:, None]
    k = attention.k_norm(linear(x, attention.k_proj.weight[:d]))[:, None]
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    return q[:, 0], k[:, 0]


def log_attention(attention, mask, start=0):
    "How the first head attended from the token `start` on: logarithms, shape (rows, length - start, length)."
    q, k = attention_inputs(attention)
    scores = (q[:, start:] @ k.transpose(-1, -2)).float() * attention.scaling
    return scores.masked_fill(~mask[:, 0, start:], -1e9).log_softmax(-1)


class Losses:
    "The seven losses of a model. `heads` are trained beside it and leave with the training."
    def __init__(self, model, seed=0):
        self.model, layers = model, model.model.language_model.layers
        self.heads = torch.nn.ModuleDict(dict(
            letters=make_head(model.config.vision_config.out_hidden_size, SLOTS * (len(LETTERS) + 1), seed),
            verdicts=make_head(model.config.text_config.hidden_size, 1, seed))).to(model.device)
        self.is_grown = len(layers) > LAYERS
        self.vision, self.reader, self.judge = model.model.visual.merger, layers[LAYERS - 1], layers[-2]
        self.looking, self.comparing, self.deciding = (layers[i].self_attn for i in (LOOK_LAYER, -2, -1))
        for module in {self.vision, self.reader, self.judge}: keep_output(module)
        for module in {self.looking, self.comparing, self.deciding}: keep_inputs(module)

    def __call__(self, batch, share, dtype=torch.float32):
        "The losses by name when `share` of the training is done; what is not taught yet is zero."
        zero = torch.zeros((), device=self.model.device)
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
            logits, labels = predict(self.model, batch)
            letters = self.read_letters(batch)
            look = self.look_at_line(batch) if share >= LOOK_FROM else zero
            verdict = self.judge_notes(batch) if share >= VERDICT_FROM else zero
        each = cross_entropy(logits.float(), labels, reduction='none')
        replies = weighted_mean(each, batch['weight'][batch['label'] != IGNORE])
        added = (self.read_on, self.compare_letters, self.find_error)
        return dict(zip(WEIGHTS, [replies, letters, look, verdict,
                                  *(f(batch) if self.is_grown else zero for f in added)]))

    def read_letters(self, batch):
        "From each image token tell its letters; empty places count little."
        logits = self.heads['letters'](self.vision.output).view(-1, len(LETTERS) + 1).float()
        weight = torch.ones(len(LETTERS) + 1, device=logits.device)
        weight[0] = .1
        return cross_entropy(logits, batch['letters'].view(-1), weight)

    def look_at_line(self, batch):
        "Minus the logarithm of the attention that one head gives to the line that the reply is about."
        start = int((batch['look'] != 0).any(0).int().argmax())
        look, weight = batch['look'][:, start:], batch['weight'][:, start:]
        pages = int((batch['branch'] == 0).sum(-1).max())   # only there are lines
        logs = log_attention(self.looking, batch['mask'], start)[:, :, :pages]
        is_line = batch['line'][:, None, :pages] == look[:, :, None]
        return weighted_mean(-logs.masked_fill(~is_line, -1e9).logsumexp(-1), weight * (look != 0))

    def judge_notes(self, batch):
        "From the last layer but one tell of each token of an answer on the Board whether all is right so far."
        is_answer = batch['verdict'] > 0
        hidden = self.judge.output[is_answer]
        logits = self.heads['verdicts'](rms_norm(hidden, hidden.shape[-1:]))[:, 0].float()
        is_wrong = (batch['verdict'][is_answer] == WRONG).float()
        return binary_cross_entropy_with_logits(logits, is_wrong, reduction='sum') / max(1, len(logits))

    def read_on(self, batch):
        "In the layer that was the last before the model grew: read on where a note is right so far."
        known = batch['expected'] != IGNORE
        logits = self.model.lm_head(self.model.model.language_model.norm(self.reader.output[known])).float()
        return cross_entropy(logits, batch['expected'][known], reduction='sum') / max(1, len(logits))

    def compare_letters(self, batch):
        "In the layer behind it: look back at what foretold a token or, from the first wrong one, at the start."
        verdict = batch['verdict']
        start = max(1, int((verdict != 0).any(0).int().argmax()))
        logs = log_attention(self.comparing, batch['mask'], start)
        back, first_wrong = logs.diagonal(start - 1, 1, 2), (verdict == WRONG) & (pad(verdict, (1, -1)) != WRONG)
        right, wrong = (verdict == RIGHT)[:, start:], first_wrong[:, start:]
        return -(back * right + logs[:, :, 0] * wrong).sum() / (right | wrong).sum().clamp(min=1.)

    def find_error(self, batch):
        "In the last layer: where a cross-checker decides, look at a note's first wrong letter, or at the start."
        (row, at), (q, k) = (batch['error'] >= 0).nonzero(as_tuple=True), attention_inputs(self.deciding)
        scores = (k[row] @ q[row, at][:, :, None])[:, :, 0].float() * self.deciding.scaling
        logs = scores.masked_fill(~batch['mask'][row, 0, at], -1e9).log_softmax(-1)
        return -logs.gather(1, batch['error'][row, at][:, None]).sum() / max(1, len(row))


def make_head(width, outputs, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.Linear(width, outputs)


def keep_output(module):
    "Keep what a module made of the last pass as its attribute `output`."
    module.register_forward_hook(lambda module, args, out: setattr(module, 'output', out))


def keep_inputs(attention):
    "Keep what went into an attention in the last pass as its attribute `inputs`."
    attention.register_forward_pre_hook(lambda module, args, kwargs: setattr(
        module, 'inputs', (kwargs['hidden_states'], kwargs['position_embeddings'])), with_kwargs=True)
