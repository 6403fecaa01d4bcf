"""The tokenizer and the untrained model.

Labels, values and notes are spelled letter by letter, so that a word that was never seen is as good as any other. Role
prompts, keys of the JSON and the frame of the Board's text are one token each. A model of two million parameters can
therefore hold the protocol, and has to be trained again when a prompt changes.
"""
import re
from functools import cache

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from cosee.agents import CHECKER_ACTIONS, READER_ACTIONS, ROLES, SCANNER_ACTIONS, describe_actions, team
from cosee.chat import chat_instruction
from cosee.models.testing import SPECIAL, ScriptedClient, random_processor
from cosee.agents import DIRECT_PROMPT
from cosee.policies import COT_PROMPT
from cosee.tools.agent import with_tools
from cosee.utils.text import NOT_ANSWERABLE

LAYERS = 5         # of the language model at first
ADDED_LAYERS = 2   # that it gets while it trains


@cache
def prompts():
    "The project's prompts by name: agents, agents with tools, agents in a chat, and the baselines."
    agents, with_tool = team(ScriptedClient([])), with_tools(team(ScriptedClient([])))
    return {**{a.name: a.role_prompt for a in agents}, **{f'{a.name}+tools': a.role_prompt for a in with_tool},
            **{f'{a.name}+chat': chat_instruction(a) for a in agents}, 'direct': DIRECT_PROMPT, 'cot': COT_PROMPT}


def prompt_tokens():
    "The texts that are one token in a prompt and never in a reply."
    p = prompts()
    formats = [describe_actions(a) for a in (SCANNER_ACTIONS, READER_ACTIONS, CHECKER_ACTIONS)]
    duties = [p[name].replace(f, '') for name, f in zip(ROLES, formats)]
    tools = p['scanner+tools'].removeprefix(p['scanner'])
    return [*duties, *formats, tools, *(p[f'{name}+chat'] for name in ROLES), DIRECT_PROMPT, COT_PROMPT]


# Replies are cut where the grammar of actions leaves a choice, so that constrained decoding writes the same tokens.
JSON = [
    '{"action":"', 'INSPECT","view":{"page":', 'HYPOTHESIZE","view":{"page":', 'REVISE","target_cell_id":',
    'LINK","target_cell_id":', ',"view":{"page":', ',"bbox_2d":[', ']},"content":"', '","answer":"', '","tags":["',
    '"]}', '","tags":[]}', '","supporting_cells":[', ',"supporting_cells":[', '],"confidence":', '","confidence":',
    '],"content":"', '"}', '0.95', '0.9', '0.6', '0.2']
PHRASES = [
    NOT_ANSWERABLE, 'not found', 'cannot read this page', 'same field', 'field', 'section', 'Answer: ', 'Page: ',
    '\nPage: ', '\nConfidence: ', '\nAnswer: ', ' says ', 'I agree.', 'I disagree.', 'Page ', ' on page ', ':\n',
    '\n\n']
FRAME = [
    'Shared board (summary):\n[Page ', ']\n- (#', '\n\n[Page ', '\n- (#', ', scanner, step ',
    ', detail_reader, step ', ', cross_checker, step ', ') ', 'Corrects #', 'Links #', 'Conversation so far:\n',
    'scanner: ', 'detail_reader: ', 'cross_checker: ', 'Question: What is the ', 'Question: Which ', ' is given?',
    'Question: What does it say for ', 'Question: Find the ', 'What stands in line ', 'What stands on page ', ' / ',
    'user\n', 'assistant\n']
NUMBERS = [str(n) for n in [*range(0, 1001, 10), *range(11, 31)]]   # boxes are multiples of ten
FIXED = list(dict.fromkeys([*JSON, *PHRASES, *FRAME, *(n for n in NUMBERS if len(n) > 1),
                            *(f'{n},' for n in [*NUMBERS, *'123456789'])]))


def tiny_tokenizer():
    "Bytes, fixed texts, whole prompts and Qwen's special tokens."
    words = sorted((t for t in FIXED if not re.fullmatch(r'\d+,?', t)), key=len, reverse=True)
    pattern = '|'.join([*map(re.escape, words), r'\d{1,4},(?=\d)', r'\d{1,4}(?=\])', r'[\s\S]'])
    pattern = pattern.replace('\\ ', ' ').replace('\\\n', '\\n')
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    fixed = [''.join(piece for piece, _ in level.pre_tokenize_str(text)) for text in FIXED]
    pieces = dict.fromkeys([*sorted(pre_tokenizers.ByteLevel.alphabet()), *fixed])
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(pieces)}, merges=[], ignore_merges=True))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), 'isolated'), level])
    tok.decoder = decoders.ByteLevel()
    tok.add_tokens([AddedToken(t, normalized=False) for t in sorted(prompt_tokens(), key=len, reverse=True)])
    return PreTrainedTokenizerFast(tokenizer_object=tok, eos_token='<|im_end|>', pad_token='<|endoftext|>',
                                   additional_special_tokens=SPECIAL, clean_up_tokenization_spaces=False)


def tiny_model(seed=0, layers=LAYERS):
    "The untrained model with so many layers in its language model, and its processor."
    processor = random_processor(tiny_tokenizer())
    tok = processor.tokenizer
    special = {name: tok.convert_tokens_to_ids(f'<|{name}|>') for name in
               ('image_pad', 'video_pad', 'vision_start', 'vision_end', 'im_end', 'endoftext')}
    text = dict(hidden_size=128, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                intermediate_size=384, vocab_size=len(tok), max_position_embeddings=8192, initializer_range=.05,
                tie_word_embeddings=True, rope_parameters=dict(rope_type='default', rope_theta=10000.,
                                                               mrope_interleaved=True, mrope_section=[6, 5, 5]))
    vision = dict(hidden_size=96, depth=3, num_heads=4, intermediate_size=288, deepstack_visual_indexes=[1],
                  out_hidden_size=128, initializer_range=.05, num_position_embeddings=256)
    config = Qwen3VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, image_token_id=special['image_pad'],
        video_token_id=special['video_pad'], vision_start_token_id=special['vision_start'],
        vision_end_token_id=special['vision_end'])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(config)
    model.generation_config.update(eos_token_id=[special['im_end'], special['endoftext']],
                                   pad_token_id=special['endoftext'])
    return model, processor
