#!/usr/bin/env python3
"""Tiny random language models of every architecture as GGUF files, with the logits of a forward pass in float64.

tiny_llms.py FOLDER writes NAME.gguf and NAME.logits (float64 [tokens, vocabulary]) for a base model of each
architecture and for variants of it that differ in one key of the metadata, and index.txt: a line "name base" for each
(a base names itself). folders.txt: lines "folder name" of models that are there as transformers writes them too. The forward pass is written from the papers and configurations of the models, apart from gyrus.
"""
import json
import os
import struct
import sys

import numpy as np

TOKENS = [3, 17, 5, 60, 9, 9, 42, 0, 31, 22, 8, 57, 13, 2, 29, 50, 11, 7, 36, 19]
WIDTH, HEADS, KV, DEPTH, HIDDEN, VOCABULARY, CONTEXT = 32, 4, 2, 8, 48, 64, 64


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def metadata(key, value):
    if isinstance(value, bool):
        return text(key) + struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    return text(key) + struct.pack("<I", 8) + text(value)


def write_gguf(path, keys, tensors):
    head, data = b"", b""
    for name, tensor in tensors.items():
        head += text(name) + struct.pack("<I", tensor.ndim)
        head += b"".join(struct.pack("<Q", n) for n in reversed(tensor.shape))
        head += struct.pack("<IQ", 0, len(data))
        data += tensor.astype("<f4").tobytes()
        data += b"\0" * (-len(data) % 32)
    body = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    body += b"".join(metadata(key, value) for key, value in keys.items()) + head
    with open(path, "wb") as file:
        file.write(body + b"\0" * (-len(body) % 32) + data)


def rms(x, gamma, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gamma


def layer_norm(x, gamma, beta, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gamma + beta


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class Reference:
    """One forward pass over all tokens at once, with a mask, in float64."""

    def __init__(self, keys, tensors):
        self.arch = keys["general.architecture"]
        self.keys = {k[len(self.arch) + 1:]: v for k, v in keys.items() if k.startswith(self.arch + ".")}
        self.w = {name: t.astype(np.float32).astype(np.float64) for name, t in tensors.items()}
        self.heads = self.keys["attention.head_count"]
        self.kv = self.keys.get("attention.head_count_kv", self.heads)
        self.depth = self.keys.get("attention.key_length", WIDTH // self.heads)
        eps = self.keys.get("attention.layer_norm_rms_epsilon", self.keys.get("attention.layer_norm_epsilon"))
        self.eps = float(np.float32(eps))
        self.gemma = self.arch.startswith("gemma")

    def key(self, name, fallback):
        value = self.keys.get(name, fallback)
        return float(np.float32(value)) if isinstance(value, float) else value

    def norm(self, x, name):
        if self.arch == "gpt2":
            return layer_norm(x, self.w[name + ".weight"], self.w[name + ".bias"], self.eps)
        return rms(x, self.w[name + ".weight"], self.eps)

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def is_local(self, layer):
        if not self.key("attention.sliding_window", 0):
            return False
        if self.arch == "gemma2":
            return layer % 2 == 0
        if self.arch == "gemma3":
            return (layer + 1) % self.key("attention.sliding_window_pattern", 6) != 0
        return True

    def speeds(self, local):
        n = self.key("rope.dimension_count", self.depth)
        place = np.arange(n // 2)
        if self.arch == "gemma3" and local:
            return self.key("rope.freq_base_swa", 10000.0) ** (-2.0 * place / n), 1.0
        base = self.key("rope.freq_base", 10000.0)
        speeds = base ** (-2.0 * place / n)
        long = CONTEXT > self.key("rope.scaling.original_context_length", CONTEXT)
        for name in ("rope_freqs.weight", f"rope_factors_{'long' if long else 'short'}.weight"):
            if name in self.w:
                speeds = speeds / self.w[name]
        kind, factor = self.key("rope.scaling.type", "none"), self.key("rope.scaling.factor", 1.0)
        if "rope.scale_linear" in self.keys:
            kind, factor = "linear", self.key("rope.scale_linear", 1.0)
        scale = self.key("rope.scaling.attn_factor", 1.0) * self.key("rope.scaling.yarn_attn_factor", 1.0)
        if kind == "linear":
            speeds = speeds / factor
        if kind == "yarn":
            context = self.key("rope.scaling.original_context_length", CONTEXT)
            find = lambda turns: n * np.log(context / (turns * 2 * np.pi)) / (2 * np.log(base))
            fast, slow = (self.key("rope.scaling.yarn_beta_" + s, f) for s, f in (("fast", 32.0), ("slow", 1.0)))
            low, high = max(np.floor(find(fast)), 0), min(np.ceil(find(slow)), n - 1)
            ramp = np.clip((place - low) / max(high - low, 0.001), 0, 1)
            speeds = speeds / factor * ramp + speeds * (1 - ramp)
            scale *= 1 + 0.1 * np.log(factor)
        return speeds, scale

    def rope(self, x, local):
        speeds, scale = self.speeds(local)
        angle = np.arange(x.shape[1])[:, None] * speeds
        c, s, n = np.cos(angle) * scale, np.sin(angle) * scale, len(speeds)
        y = x.copy()
        if self.arch == "llama":
            a, b = x[..., 0:2 * n:2], x[..., 1:2 * n:2]
            y[..., 0:2 * n:2], y[..., 1:2 * n:2] = a * c - b * s, a * s + b * c
        else:
            a, b = x[..., :n], x[..., n:2 * n]
            y[..., :n], y[..., n:2 * n] = a * c - b * s, a * s + b * c
        return y

    def attention(self, h, layer):
        name, count = f"blk.{layer}.", len(h)
        if name + "attn_qkv.weight" in self.w:
            q, k, v = np.split(self.linear(h, name + "attn_qkv"),
                               [self.heads * self.depth, (self.heads + self.kv) * self.depth], 1)
        else:
            q, k, v = (self.linear(h, name + "attn_" + part) for part in "qkv")
        split = lambda x: x.reshape(count, -1, self.depth).transpose(1, 0, 2)
        q, k, v = split(q), split(k), split(v)
        if name + "attn_q_norm.weight" in self.w:
            q, k = (rms(x, self.w[f"{name}attn_{p}_norm.weight"], self.eps) for x, p in ((q, "q"), (k, "k")))
        local = self.is_local(layer)
        if self.arch != "gpt2":
            q, k = self.rope(q, local), self.rope(k, local)
        k, v = (np.repeat(x, self.heads // self.kv, 0) for x in (k, v))
        scores = q @ k.transpose(0, 2, 1) * self.key("attention.scale", self.depth**-0.5)
        cap = self.key("attn_logit_softcapping", 50.0 if self.arch == "gemma2" else 0)
        if cap:
            scores = cap * np.tanh(scores / cap)
        back = np.arange(count)[:, None] - np.arange(count)
        seen = (back >= 0) & (back < self.key("attention.sliding_window", 0) if local else True)
        made = softmax(np.where(seen, scores, -np.inf)) @ v
        return self.linear(made.transpose(1, 0, 2).reshape(count, -1), name + "attn_output")

    def network(self, h, layer):
        name = f"blk.{layer}."
        if self.arch == "gpt2":
            return self.linear(gelu_tanh(self.linear(h, name + "ffn_up")), name + "ffn_down")
        if name + "ffn_gate_inp.weight" in self.w:
            return self.mixture(h, name)
        if self.arch == "phi3":
            gate, up = np.split(self.linear(h, name + "ffn_up"), 2, 1)
        else:
            gate, up = self.linear(h, name + "ffn_gate"), self.linear(h, name + "ffn_up")
        act = gelu_tanh if self.gemma else silu
        return self.linear(act(gate) * up, name + "ffn_down")

    def mixture(self, h, name):
        shares = softmax(self.linear(h, name + "ffn_gate_inp"))
        out = np.zeros_like(h)
        for row in range(len(h)):
            best = np.argsort(-shares[row], kind="stable")[:self.keys["expert_used_count"]]
            part = shares[row, best]
            if self.key("expert_weights_norm", True):
                part = part / part.sum()
            for expert, share in zip(best, part):
                gate, up, down = (self.w[f"{name}ffn_{p}_exps.weight"][expert] for p in ("gate", "up", "down"))
                out[row] += share * (down @ (silu(gate @ h[row]) * (up @ h[row])))
        return out

    def logits(self, tokens):
        x = self.w["token_embd.weight"][tokens]
        if self.gemma:
            x = x * np.sqrt(WIDTH)
        if self.arch == "gpt2":
            x = x + self.w["position_embd.weight"][:len(tokens)]
        for layer in range(self.keys["block_count"]):
            name = f"blk.{layer}."
            made = self.attention(self.norm(x, name + "attn_norm"), layer)
            x = x + (self.norm(made, name + "post_attention_norm") if self.gemma else made)
            made = self.network(self.norm(x, name + "ffn_norm"), layer)
            x = x + (self.norm(made, name + "post_ffw_norm") if self.gemma else made)
        x = self.norm(x, "output_norm") @ self.w.get("output.weight", self.w["token_embd.weight"]).T
        cap = self.key("final_logit_softcapping", 30.0 if self.arch == "gemma2" else 0)
        return cap * np.tanh(x / cap) if cap else x


class Maker:
    def __init__(self, arch, seed, layers=2, **keys):
        self.arch, self.rng, self.tensors = arch, np.random.default_rng(seed), {}
        self.keys = {"general.architecture": arch, "general.name": "tiny " + arch}
        self.heads, self.kv = keys.pop("heads", HEADS), keys.pop("kv", KV)
        self.depth = keys.pop("depth", DEPTH)
        own = {"context_length": CONTEXT, "embedding_length": WIDTH, "block_count": layers,
               "feed_forward_length": HIDDEN, "attention.head_count": self.heads}
        if arch != "gpt2":
            own["attention.head_count_kv"] = self.kv
            own["rope.dimension_count"] = self.depth
        if self.depth != WIDTH // self.heads:
            own["attention.key_length"] = own["attention.value_length"] = self.depth
        own["attention.layer_norm_epsilon" if arch == "gpt2" else "attention.layer_norm_rms_epsilon"] = 1e-5
        own.update(keys)
        self.keys.update({f"{arch}.{key}": value for key, value in own.items()})
        self.layers = layers

    def matrix(self, name, *shape, scale=2.0):
        self.tensors[name + ".weight"] = self.rng.normal(size=shape) * scale / np.sqrt(shape[-1])

    def vector(self, name, n, centre=1.0):
        self.tensors[name] = centre + 0.3 * self.rng.normal(size=n)

    def norm(self, name, n=WIDTH):
        self.vector(name + ".weight", n)
        if self.arch == "gpt2":
            self.vector(name + ".bias", n, 0)

    def biased(self, name, *shape, bias=False):
        self.matrix(name, *shape)
        if bias:
            self.vector(name + ".bias", shape[0], 0)

    def make(self, fused=False, qkv_bias=False, all_bias=False, head_norms=False, experts=0, tied=False,
             one_network=()):
        q, kv = self.heads * self.depth, self.kv * self.depth
        self.matrix("token_embd", VOCABULARY, WIDTH, scale=4.0)
        if self.arch == "gpt2":
            self.matrix("position_embd", CONTEXT, WIDTH)
        for layer in range(self.layers):
            at = f"blk.{layer}."
            self.norm(at + "attn_norm")
            if fused:
                self.biased(at + "attn_qkv", q + 2 * kv, WIDTH, bias=all_bias)
            else:
                for part, rows in (("q", q), ("k", kv), ("v", kv)):
                    self.biased(at + "attn_" + part, rows, WIDTH, bias=qkv_bias)
            if head_norms:
                self.norm(at + "attn_q_norm", self.depth)
                self.norm(at + "attn_k_norm", self.depth)
            self.biased(at + "attn_output", WIDTH, q, bias=all_bias)
            self.norm(at + "ffn_norm")
            if self.arch.startswith("gemma"):
                self.norm(at + "post_attention_norm")
                self.norm(at + "post_ffw_norm")
            self.make_network(at, all_bias, 0 if layer in one_network else experts)
        self.norm("output_norm")
        if not tied:
            self.matrix("output", VOCABULARY, WIDTH)
        return self

    def make_network(self, at, bias, experts):
        if experts:
            hidden = self.keys.get(self.arch + ".expert_feed_forward_length", HIDDEN)
            self.matrix(at + "ffn_gate_inp", experts, WIDTH)
            self.matrix(at + "ffn_gate_exps", experts, hidden, WIDTH)
            self.matrix(at + "ffn_up_exps", experts, hidden, WIDTH)
            self.matrix(at + "ffn_down_exps", experts, WIDTH, hidden)
            return
        if self.arch not in ("phi3", "gpt2"):
            self.biased(at + "ffn_gate", HIDDEN, WIDTH)
        self.biased(at + "ffn_up", HIDDEN * (2 if self.arch == "phi3" else 1), WIDTH, bias=bias)
        self.biased(at + "ffn_down", WIDTH, HIDDEN, bias=bias)


def models():
    """(name, base, keys, tensors) of every model."""
    def variants(maker, changes):
        base = maker.arch
        yield base, base, maker.keys, maker.tensors
        for number, change in enumerate(changes):
            keys = dict(maker.keys)
            tensors = dict(maker.tensors)
            for key, value in change.items():
                if isinstance(value, np.ndarray):
                    tensors[key] = value
                else:
                    keys[f"{base}.{key}"] = value
            yield f"{base}-{number}-{next(iter(change))}", base, keys, tensors

    rope = [{"rope.freq_base": 500.0}, {"rope.dimension_count": 4},
            {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
            {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16}]
    yarn = rope[3]
    more = [{**yarn, "rope.scaling.yarn_beta_fast": 0.2}, {**yarn, "rope.scaling.yarn_beta_slow": 0.02},
            {**yarn, "rope.scaling.yarn_attn_factor": 1.5}, {"attention.sliding_window": 5}, {"attention.scale": 0.7},
            {"rope.scale_linear": 4.0}, {"attn_logit_softcapping": 2.0}]
    common = [{"attention.layer_norm_rms_epsilon": 0.5}]
    yield from variants(Maker("llama", 1).make(tied=True), common + rope + [
        {"rope_freqs.weight": np.array([1.0, 1.5, 3.0, 8.0])}, {"rope.scaling.attn_factor": 1.4}] + more)
    mixtral = Maker("llama", 9, expert_count=4, expert_used_count=2).make(experts=4)
    yield "llama-experts", "llama-experts", mixtral.keys, mixtral.tensors
    yield from variants(Maker("qwen2", 2).make(qkv_bias=True), common + rope[:1])
    yield from variants(Maker("qwen3", 3, depth=12).make(head_norms=True), common + rope[:2])
    yield from variants(
        Maker("qwen3moe", 4, depth=12, expert_count=6, expert_used_count=2, expert_feed_forward_length=24).make(
            head_norms=True, experts=6), common + [{"expert_used_count": 3}, {"expert_weights_norm": False}])
    # Layers 0 and 2 with one network, layer 1 with experts.
    some = Maker("qwen3moe", 10, 3, depth=12, expert_count=6, expert_used_count=2, expert_feed_forward_length=24).make(
        head_norms=True, experts=6, one_network=(0, 2))
    yield "qwen3moe-some", "qwen3moe-some", some.keys, some.tensors
    gemma2 = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 6.0, "attention.sliding_window": 6}
    yield from variants(Maker("gemma2", 5, 3, depth=12, **gemma2).make(tied=True), common + rope[:1] + [
        {"attn_logit_softcapping": 1.0}, {"final_logit_softcapping": 2.0}, {"attention.sliding_window": 3}])
    gemma3 = {"attention.sliding_window": 6, "rope.freq_base": 100000.0}
    yield from variants(Maker("gemma3", 6, 7, depth=12, **gemma3).make(tied=True, head_norms=True), common + [
        {"rope.freq_base": 50.0}, {"rope.freq_base_swa": 100.0}, {"attention.sliding_window": 3},
        {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0}, {"final_logit_softcapping": 3.0}, {"attention.sliding_window_pattern": 2}])
    yield from variants(Maker("phi3", 7).make(fused=True), common + rope[:2] + [
        {"attention.sliding_window": 5}, {"rope_factors_short.weight": np.array([1.0, 1.5, 3.0, 8.0])},
        {"rope.scaling.attn_factor": 1.3},
        {"rope.scaling.original_context_length": 32, "rope_factors_short.weight": np.array([1.0, 1.5, 3.0, 8.0]),
         "rope_factors_long.weight": np.array([1.0, 2.5, 5.0, 20.0])}])
    yield from variants(Maker("gpt2", 8, kv=HEADS).make(fused=True, all_bias=True, tied=True),
                        [{"attention.layer_norm_epsilon": 0.5}])


NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
         "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
         "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate"}
EXPERTS = {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"}
MIXTRAL = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}


def in_folder(name, tensor, kind):
    """(name, tensor) as transformers has them: each expert has tensors of its own."""
    layer, parts = "", name.split(".")
    if parts[0] == "blk":
        layer, parts = f"model.layers.{parts[1]}.", parts[2:]
    mixtral = kind.startswith("Mixtral")
    if parts[0] in EXPERTS:
        part = EXPERTS[parts[0]]
        for expert, own in enumerate(tensor):
            yield (f"{layer}block_sparse_moe.experts.{expert}.{MIXTRAL[part]}.weight" if mixtral else
                   f"{layer}mlp.experts.{expert}.{part}.weight"), own
    elif mixtral and parts[0] == "ffn_gate_inp":
        yield layer + "block_sparse_moe.gate." + parts[1], tensor
    else:
        yield layer + NAMES[parts[0]] + "." + parts[1], tensor


def write_safetensors(path, tensors):
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        head[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [at, at + tensor.size * 4]}
        at += tensor.size * 4
    text_of_head = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text_of_head)) + text_of_head)
        for tensor in tensors.values():
            file.write(tensor.astype("<f4").tobytes())


def write_folder(path, kind, keys, tensors, parts=1, **more):
    """The model as transformers writes it; the rows of llama's queries and keys go back to halves."""
    os.makedirs(path)
    arch = keys["general.architecture"]
    own = {key[len(arch) + 1:]: value for key, value in keys.items() if key.startswith(arch + ".")}
    config = {"architectures": [kind], "hidden_act": "silu", "num_hidden_layers": own["block_count"],
              "hidden_size": WIDTH, "intermediate_size": HIDDEN, "max_position_embeddings": CONTEXT,
              "num_attention_heads": HEADS, "num_key_value_heads": KV, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "tie_word_embeddings": "output.weight" not in tensors, "eos_token_id": 1, **more}
    if "attention.key_length" in own:
        config["head_dim"] = own["attention.key_length"]
    files = [{} for _ in range(parts)]
    for number, (name, tensor) in enumerate(tensors.items()):
        if name == "rope_freqs.weight":
            continue
        if arch == "llama" and ("attn_q." in name or "attn_k." in name):
            tensor = tensor.reshape(-1, DEPTH // 2, 2, WIDTH).swapaxes(1, 2).reshape(tensor.shape)
        for place, (theirs, own) in enumerate(in_folder(name, tensor, kind)):
            files[(number + place) % parts][theirs] = own
    if parts == 1:
        write_safetensors(f"{path}/model.safetensors", files[0])
    else:
        names = [f"model-{i + 1:05}-of-{parts:05}.safetensors" for i in range(parts)]
        for name, file in zip(names, files):
            write_safetensors(f"{path}/{name}", file)
        dump(f"{path}/model.safetensors.index.json",
             {"weight_map": {key: name for name, file in zip(names, files) for key in file}})
    dump(f"{path}/config.json", config)
    dump(f"{path}/tokenizer.json", {"model": {"type": "BPE", "vocab": {chr(97 + i): i for i in range(20)}, "merges": []},
                                    "pre_tokenizer": {"type": "ByteLevel"}})


def dump(path, value):
    with open(path, "w") as file:
        json.dump(value, file)


def llama3_factors(factor, low, high, context):
    """As transformers' _compute_llama3_parameters has it: by wavelengths."""
    factors = []
    for i in range(DEPTH // 2):
        speed = 10000.0 ** (-2.0 * i / DEPTH)
        wave = 2 * np.pi / speed
        blend = (context / wave - low) / (high - low)
        slowed = speed / factor if wave > context / low else speed
        if context / high <= wave <= context / low:
            slowed = (1 - blend) * speed / factor + blend * speed
        factors.append(speed / slowed)
    return np.array(factors)


def write_folders(folder, made):
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}
    keys, tensors = made["llama"]
    stretched = {**tensors, "rope_freqs.weight": llama3_factors(8.0, 1.0, 4.0, 32)}
    Reference(keys, stretched).logits(TOKENS).astype("<f8").tofile(f"{folder}/llama3.logits")
    yarn = next(name for name in made if name.endswith("scaling_type") and
                made[name][0].get("llama.rope.scaling.type") == "yarn")
    window = next(name for name in made if name.startswith("llama") and name.endswith("sliding_window"))
    rows = [("LlamaForCausalLM", "llama", "llama", {}), ("LlamaForCausalLM", "llama", "llama", {"parts": 3}),
            ("LlamaForCausalLM", "llama", "llama3", {"rope_scaling": scaling}),
            ("LlamaForCausalLM", "llama", yarn, {"rope_scaling": {"type": "yarn", "factor": 4.0,
                                                                  "original_max_position_embeddings": 16}}),
            ("MistralForCausalLM", "llama", window, {"sliding_window": 5}),
            ("Qwen2ForCausalLM", "qwen2", "qwen2", {}), ("Qwen3ForCausalLM", "qwen3", "qwen3", {})]
    experts = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True}
    used = next(name for name in made if name.startswith("qwen3moe") and name.endswith("used_count"))
    unnormed = next(name for name in made if name.startswith("qwen3moe") and name.endswith("weights_norm"))
    moe = "Qwen3MoeForCausalLM", "qwen3moe"
    rows += [(*moe, "qwen3moe", experts), (*moe, "qwen3moe", {**experts, "parts": 3}),
             (*moe, used, {**experts, "num_experts_per_tok": 3}),
             (*moe, unnormed, {**experts, "norm_topk_prob": False}),
             ("Qwen3MoeForCausalLM", "qwen3moe-some", "qwen3moe-some", {**experts, "decoder_sparse_step": 2}),
             ("Qwen3MoeForCausalLM", "qwen3moe-some", "qwen3moe-some", {**experts, "mlp_only_layers": [0, 2]}),
             ("MixtralForCausalLM", "llama-experts", "llama-experts", {"num_local_experts": 4, "num_experts_per_tok": 2})]
    lines = []
    for number, (kind, base, name, more) in enumerate(rows):
        write_folder(f"{folder}/folder{number}", kind, *made[base], **more)
        lines.append(f"folder{number} {name}\n")
    with open(f"{folder}/folders.txt", "w") as file:
        file.writelines(lines)


def main():
    folder = sys.argv[1]
    made = {}
    lines = []
    for name, base, keys, tensors in models():
        name = name.replace(".", "_")
        write_gguf(f"{folder}/{name}.gguf", keys, tensors)
        Reference(keys, tensors).logits(TOKENS).astype("<f8").tofile(f"{folder}/{name}.logits")
        lines.append(f"{name} {base}\n")
        made[name] = keys, tensors
    write_folders(folder, made)
    with open(f"{folder}/index.txt", "w") as file:
        file.writelines(lines)


if __name__ == "__main__":
    main()
