"""Servers on 127.0.0.1 that speak the wire format of a provider, and fail on demand.

A `FakeServer` answers each POST as the next entry of its script says, and well once the script has run out.
It keeps every request. What it lists of its models is `lists`: path -> JSON, and of Ollama name -> JSON. Nothing
sleeps: a slow answer waits for the server's end, a cut one closes the connection.
"""
import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# A reply of an agent that has found the answer on the first page
FOUND = json.dumps({"action": "HYPOTHESIZE", "view": {"page": 1, "bbox_2d": [0, 0, 500, 500]},
                    "content": "It stands there.", "answer": "1,250.00 EUR", "supporting_cells": [],
                    "confidence": 0.95})


def spelled(text, sure):
    "The logprobs of a chat completion whose tokens are characters, each as probable as that."
    tops = [[{"token": c, "logprob": math.log(sure)}] for c in text]
    return {"logprobs": {"content": [{**top[0], "top_logprobs": top} for top in tops]}}


def openai(text, finish="stop", usage=True, refusal=None, **more):
    "A chat completion."
    message = {"role": "assistant", "content": text, "refusal": refusal}
    counts = {"prompt_tokens": 200, "completion_tokens": 7, "total_tokens": 207,
              "prompt_tokens_details": {"cached_tokens": 64}}
    return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", **({"usage": counts} if usage else {}),
            "choices": [{"index": 0, "finish_reason": finish, "message": message, **more}]}


def in_pieces(answer, size=3, usage=True):
    "A chat completion in the chunks of a stream: of its text so many characters each."
    choice = answer["choices"][0]
    text, logprobs = choice["message"]["content"] or "", (choice.get("logprobs") or {}).get("content")
    about = {**answer, "object": "chat.completion.chunk", "usage": None}

    def chunk(delta, finish=None, **more):
        return {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}
    parts = [chunk({"content": text[i:i + size]},
                   **({"logprobs": {"content": logprobs[i:i + size]}} if logprobs else {}))
             for i in range(0, len(text), size)]
    last = {**about, "choices": [], "usage": answer["usage"]}
    return [chunk({"role": "assistant", "content": ""}), *parts, chunk({}, choice["finish_reason"]),
            *([last] if usage else []), "[DONE]"]


def message_in_pieces(message, size=3):
    "A message in the events of a stream: of its texts, and of what a tool is given, so many characters each."
    start = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    events = [{"type": "message_start", "message": start}]
    for i, block in enumerate(message["content"]):
        tool = block["type"] == "tool_use"
        said = json.dumps(block["input"]) if tool else block["text"]
        begun = {**block, "input": {}} if tool else {**block, "text": ""}
        kind, field = ("input_json_delta", "partial_json") if tool else ("text_delta", "text")
        events += [{"type": "content_block_start", "index": i, "content_block": begun},
                   *({"type": "content_block_delta", "index": i, "delta": {"type": kind, field: said[n:n + size]}}
                     for n in range(0, len(said), size)), {"type": "content_block_stop", "index": i}]
    last = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    return [*events, {"type": "message_delta", "delta": last, "usage": {"output_tokens": message["usage"][
        "output_tokens"]}}, {"type": "message_stop"}]


def anthropic(text, finish="end_turn", usage=True, refusal=None):
    "A message."
    content = [{"type": "text", "text": text}] if text is not None else []
    counts = {"input_tokens": 136 if usage else 0, "cache_read_input_tokens": 64, "output_tokens": 7}
    return {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content, "usage": counts,
            "stop_reason": "refusal" if refusal else "max_tokens" if finish == "length"
            else finish.replace("stop", "end_turn")}


def google(text, finish="STOP", usage=True, refusal=None):
    "The answer of generateContent."
    finish = "SAFETY" if refusal else {"length": "MAX_TOKENS", "stop": "STOP"}.get(finish, finish)
    counts = {"promptTokenCount": 200, "candidatesTokenCount": 7, "cachedContentTokenCount": 64}
    parts = [{"text": text}] if text is not None else []
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
            **({"usageMetadata": counts} if usage else {})}


def answer_in_pieces(answer, size=3):
    "An answer of generateContent in those of a stream: of its text so many characters each."
    candidate = answer["candidates"][0]
    text = "".join(p["text"] for p in candidate["content"]["parts"])
    pieces = [{"candidates": [{"content": {"role": "model", "parts": [{"text": text[i:i + size]}]}}]}
              for i in range(0, len(text), size)]
    pieces[-1]["candidates"][0]["finishReason"] = candidate["finishReason"]
    return [*pieces[:-1], {**answer, **pieces[-1]}]


def ollama(**models):
    "What Ollama tells of its models: name -> (bytes, what it can do, its context where it is loaded)."
    rows = [{"name": name, "size": size} for name, (size, _, _) in models.items()]
    return {"/v1/models": {"data": [{"id": name, "owned_by": "library"} for name in models]},
            "/api/tags": {"models": rows},
            "/api/ps": {"models": [{"name": n, "context_length": c} for n, (_, _, c) in models.items() if c]},
            **{name: {"capabilities": ["completion", *can]} for name, (_, can, _) in models.items()}}


WIRES = {"openai": openai, "anthropic": anthropic, "google": google}


def asked(body):
    "The text of a request, whichever wire it came by."
    turns = body.get("messages") or body.get("contents")
    parts = [p for t in turns for p in (t.get("parts") or t["content"] if not isinstance(t.get("content"), str)
                                        else [{"text": t["content"]}])]
    return "\n".join(p["text"] for p in parts if "text" in p)


class LocalServer(ThreadingHTTPServer):
    "A server on a free port; use it as a context manager. `.url` is its address, `.closing` is set at its end."
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler):
        self.closing = threading.Event()
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.closing.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        "A client that went away is part of the test."


class FakeServer(LocalServer):
    "`.requests` are dicts with path, headers, body."

    def __init__(self, wire="openai", script=(), answer=lambda body: "42", lists=None):
        self.wire, self.script, self.answer, self.lists = wire, list(script), answer, lists
        self.requests, self.in_flight, self.most_in_flight = [], 0, 0
        self.lock, self.gate = threading.Lock(), None
        super().__init__(Handler)
        self.base_url = self.url + ("/v1" if wire == "openai" else "")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, status, data, headers=None):
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)),
                            **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.server.lists is not None:
            return self.tell(self.server.lists.get(self.path))
        self.send(200, json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode())

    def tell(self, found):
        "Answer from the lists of the server"
        self.send(404 if found is None else 200, json.dumps(found).encode())

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/show":
            return self.tell((server.lists or {}).get(body["model"]))
        with server.lock:
            server.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
            act = server.script.pop(0) if server.script else "ok"
            server.in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.in_flight)
        try:
            if server.gate is not None:
                server.gate.wait(10)
            self.act(act, body)
        finally:
            with server.lock:
                server.in_flight -= 1

    def stream(self, events):
        "Server-sent events: JSON or a text each; what can be called is waited for, and the word cut breaks off."
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            if callable(event):
                event()
            elif event == "cut":
                self.close_connection = True
                return self.connection.close()
            else:
                named = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
                data = f"{named}data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def act(self, act, body):
        wire = WIRES[self.server.wire]
        if callable(act):
            act = act(body)
        if isinstance(act, list):
            return self.stream(act)
        if isinstance(act, dict):
            return self.send(200, json.dumps(act).encode())
        if isinstance(act, tuple):
            status, headers, *said = act
            error = {"error": {"message": said[0] if said else f"planned status {status}", "type": "planned",
                               "code": status, "status": "PLANNED"}}
            return self.send(status, json.dumps(error).encode(), headers)
        if act == "echo":  # as some gateways do
            return self.send(401, json.dumps({"error": {"message": f"wrong key in {dict(self.headers)}"}}).encode())
        if act == "slow":
            self.server.closing.wait(30)
            self.close_connection = True
            return None
        if act == "cut":
            self.close_connection = True
            return self.connection.close()
        if act == "torn":
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(b'{"id": "c", ')
            self.close_connection = True
            return None
        if act == "garbage":
            return self.send(200, b'{"id": "c", "choices": [}')
        if act == "html":
            return self.send(200, b"<html>gateway</html>", {"Content-Type": "text/html"})
        if act == "hollow":
            return self.send(200, b"{}")
        texts = {"ok": self.server.answer(body), "empty": "", "none": None, "refusal": "I cannot help with that."}
        refused = texts["refusal"] if act == "refusal" else None
        text = None if refused and self.server.wire == "openai" else texts[act]
        return self.send(200, json.dumps(wire(text, refusal=refused)).encode())
