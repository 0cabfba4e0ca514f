"""An OpenAI-compatible server over a model of this package, in the dialect of a known server, with
the defects asked for.

`bare` is `transformers serve`: no log-probabilities, greedy whatever the temperature, text prompts
only. `vllm`: log-
probabilities of answer and prompt, echo, token-id prompts, seeds. `llamacpp` is llama-cpp-python's
server: echo with
log-probabilities, which stand one token too early where the tokenizer adds no first token
(`shift_echo`).
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from leakbound.models import Embed
from leakbound.models.pocket import load_pocket
from loopback.generating import GeneratedText, Generation, Ids, generate
from loopback.shapes import Shapes

__all__ = ["DIALECTS", "Refusal", "Ways", "speaking"]

DIALECTS = ("bare", "vllm", "llamacpp")


@dataclass(frozen=True)
class Ways:
    """What a server does with a request. `top_k_cap` refuses in vllm and cuts silently in llamacpp;
    `echo_limit` is the
    longest prompt, in tokens, that is echoed; `noise` the size of fresh noise on the logits that
    are reported; `key`
    the bearer token that is required; `embeds` whether /v1/embeddings is there."""

    dialect: str = "vllm"
    name: str = "pocket"
    ignore_logprobs: bool = False
    ignore_temperature: bool = False
    ignore_seed: bool = False
    ignore_echo: bool = False
    shift_echo: bool = False
    top_k_cap: int | None = None
    echo_limit: int | None = None
    noise: float = 0.0
    key: str | None = None
    embeds: bool = True
    first_token: bool = True  # whether the tokenizer puts a token before a text


class Refusal(Exception):
    """A request that the server does not answer."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def speaking(model: Any = None, dialect: str = "vllm", **ways: Any) -> Starlette:
    """The application. `app.state.requests` holds the path and decoded body of every request, in
    order.
    """
    server = Server(model or load_pocket(), Ways(dialect, **ways))
    routes = [Route("/v1/models", server.models), Route("/health", server.health)]
    posts = {"/v1/completions": server.complete, "/v1/chat/completions": server.chat}
    posts |= {"/v1/embeddings": server.embed} if dialect != "bare" and server.ways.embeds else {}
    posts |= {"/tokenize": server.tokenize} if dialect == "vllm" else {}
    app = Starlette(
        routes=[
            *routes,
            *(Route(path, server.post(verb), methods=["POST"]) for path, verb in posts.items()),
        ]
    )
    app.state.requests = server.requests
    return app


class Server:
    """One model, asked by one request at a time."""

    def __init__(self, model: Any, ways: Ways) -> None:
        if ways.dialect not in DIALECTS:
            raise ValueError(
                f"dialect is {ways.dialect!r}; it must be one of {', '.join(DIALECTS)}."
            )
        self.model, self.ways = model, ways
        self.shapes = Shapes(ways.dialect, model.tokenizer, ways.shift_echo)
        self.requests: list[tuple[str, Any]] = []
        self.drawn: Counter[int] = Counter()
        self.one = anyio.CapacityLimiter(1)

    # --- doors

    def post(self, verb: Any) -> Any:
        async def door(request: Request) -> Response:
            try:
                self._admit(request)
                body = await request.json()
                self.requests.append((request.url.path, body))
                return await to_thread.run_sync(verb, body, limiter=self.one)
            except Refusal as refusal:
                return self._refused(refusal)

        return door

    async def models(self, request: Request) -> Response:
        try:
            self._admit(request)
        except Refusal as refusal:
            return self._refused(refusal)
        if self.ways.dialect == "bare":  # fails where the hub cache folder does not exist
            return Response("Internal Server Error", 500, media_type="text/plain")
        entry = {
            "id": self.ways.name,
            "object": "model",
            "created": 0,
            "owned_by": self.ways.dialect,
        }
        return JSONResponse({"object": "list", "data": [entry]})

    async def health(self, request: Request) -> Response:
        return Response("")

    def _admit(self, request: Request) -> None:
        if (
            self.ways.key is not None
            and request.headers.get("authorization") != f"Bearer {self.ways.key}"
        ):
            raise Refusal(401, "Unauthorized")

    def _refused(self, refusal: Refusal) -> Response:
        if self.ways.dialect == "bare":
            return JSONResponse({"detail": str(refusal)}, refusal.status)
        kinds = {
            "vllm": ("BadRequestError", refusal.status),
            "llamacpp": ("internal_server_error", None),
        }
        kind, code = kinds[self.ways.dialect]
        error = {"message": str(refusal), "type": kind, "param": None, "code": code}
        return JSONResponse({"error": error}, refusal.status)

    # --- verbs

    def complete(self, body: dict[str, Any]) -> Response:
        self._known(body)
        prompts = self._prompts(body.get("prompt"))
        echo, k = self._echo(body, prompts), self._k(body.get("logprobs"))
        self._k(body.get("prompt_logprobs"))
        spoken = [self._speak(prompt, body, 16, echo) for prompt in prompts]
        choices = [self._choice(i, one, body, echo, k) for i, one in enumerate(spoken)]
        return JSONResponse(self.shapes.completion(self.ways.name, choices, spoken))

    def _choice(
        self, index: int, spoken: GeneratedText, body: dict[str, Any], echo: bool, k: int | None
    ) -> dict[str, Any]:
        text = self.model.text(spoken.prompt) + spoken.text if echo else spoken.text
        logprobs = None if k is None else self.shapes.completion_logprobs(
            spoken, k, echo, bool(body.get("return_tokens_as_token_ids")))  # fmt: skip
        choice = {
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": spoken.finish,
        }
        return {**choice, **self._extras(spoken, body)}

    def _extras(self, spoken: GeneratedText, body: dict[str, Any]) -> dict[str, Any]:
        """What vLLM adds to a choice."""
        if self.ways.dialect != "vllm":
            return {}
        k, ids = self._k(body.get("prompt_logprobs")), bool(body.get("return_token_ids"))
        return {"stop_reason": None, "prompt_logprobs": None if k is None
                else self.shapes.prompt_logprobs(spoken, k),
                "prompt_token_ids": list(spoken.prompt) if ids else None,
                "token_ids": list(spoken.generated) if ids else None}  # fmt: skip

    def chat(self, body: dict[str, Any]) -> Response:
        self._known(body)
        k = self._k(body.get("top_logprobs") or 0) if body.get("logprobs") else None
        spoken = self._speak(self._conversation(body.get("messages")), body, 64, echo=False)
        if body.get("stream"):
            return StreamingResponse(self._events(spoken), media_type="text/event-stream")
        logprobs = None if k is None else self.shapes.chat_logprobs(spoken, k)
        choice = {"index": 0, "message": {"role": "assistant", "content": spoken.text},
                  "logprobs": logprobs, "finish_reason": spoken.finish}  # fmt: skip
        reply = self.shapes.chat(self.ways.name, choice, spoken)
        return JSONResponse({**reply, **self._chat_extras(spoken, body)})

    def _chat_extras(self, spoken: GeneratedText, body: dict[str, Any]) -> dict[str, Any]:
        extras = self._extras(spoken, body)
        return {
            name: extras[name] for name in ("prompt_logprobs", "prompt_token_ids") if name in extras
        }

    def _events(self, spoken: GeneratedText) -> Iterator[str]:
        """The role, the text in two pieces, the reason of the end."""
        middle = len(spoken.text) // 2
        deltas = [
            {"role": "assistant"},
            {"content": spoken.text[:middle]},
            {"content": spoken.text[middle:]},
            {},
        ]
        for delta in deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": None if delta else spoken.finish}
            chunk = {
                **self.shapes.chat(self.ways.name, choice, spoken),
                "object": "chat.completion.chunk",
            }
            chunk.pop("usage", None)
            yield f"data: {json.dumps(chunk)}\n\n"
        yield "" if self.ways.dialect == "bare" else "data: [DONE]\n\n"

    def embed(self, body: dict[str, Any]) -> Response:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        vectors = self.model.answer([Embed(text) for text in texts])
        data = [
            {"object": "embedding", "index": i, "embedding": v.tolist()}
            for i, v in enumerate(vectors)
        ]
        usage = {
            "prompt_tokens": sum(len(self.model.encode(text)) for text in texts),
            "total_tokens": 0,
        }
        return JSONResponse(
            {"object": "list", "model": self.ways.name, "data": data, "usage": usage}
        )

    def tokenize(self, body: dict[str, Any]) -> Response:
        ids = self._ids(body["prompt"], body.get("add_special_tokens", True))
        return JSONResponse(
            {"count": len(ids), "max_model_len": self.model.window, "tokens": list(ids)}
        )

    # --- requests

    def _speak(self, prompt: Ids, body: dict[str, Any], tokens: int, echo: bool) -> GeneratedText:
        given = body.get("max_tokens", body.get("max_completion_tokens"))
        tokens = tokens if given is None else int(given)
        if tokens <= 0 and self.ways.dialect == "llamacpp":
            tokens = self.model.window - len(prompt)
        if (tokens <= 0 and not echo) or tokens < 0:
            raise Refusal(400, f"max_tokens must be at least 1, got {tokens}.")
        if len(prompt) + tokens > self.model.window:
            raise Refusal(
                400, f"This model's maximum context length is {self.model.window} tokens."
            )
        stop = body.get("stop") or ()
        return generate(self.model, prompt, Generation(
            tokens, self._temperature(body), None if self.ways.ignore_seed else body.get("seed"),
            self._fresh(body), (stop,) if isinstance(stop, str) else tuple(stop), self.ways.noise,
            self.ways.dialect == "vllm"))  # fmt: skip

    def _fresh(self, body: dict[str, Any]) -> tuple[int, ...]:
        """Which request this is, whatever the order in which others come in."""
        name = zlib.crc32(json.dumps(body, sort_keys=True).encode())
        self.drawn[name] += 1
        return name, self.drawn[name]

    def _temperature(self, body: dict[str, Any]) -> float:
        if self.ways.ignore_temperature or self.ways.dialect == "bare":
            return 0.0
        given = body.get("temperature")
        return {"vllm": 1.0, "llamacpp": 0.8}[self.ways.dialect] if given is None else float(given)

    def _known(self, body: dict[str, Any]) -> None:
        if self.ways.dialect == "vllm" and body.get("model", self.ways.name) != self.ways.name:
            raise Refusal(404, f"The model `{body['model']}` does not exist.")
        foreign = {
            "prompt_logprobs",
            "return_token_ids",
            "return_tokens_as_token_ids",
            "add_special_tokens",
        } & set(body)
        if self.ways.dialect == "bare" and foreign:
            raise Refusal(422, f"Unexpected fields in the request: {foreign}")

    def _prompts(self, prompt: Any) -> list[Ids]:
        """Text, a list of texts, token ids, or a list of token-id prompts, as far as the dialect
        takes them.
        """
        if isinstance(prompt, str):
            return [self._ids(prompt)]
        texts = (
            isinstance(prompt, list)
            and bool(prompt)
            and all(isinstance(part, str) for part in prompt)
        )
        if self.ways.dialect == "bare":
            raise Refusal(400, "prompt must be a string.")
        if self.ways.dialect == "llamacpp" and not (texts and len(prompt) == 1):
            raise Refusal(500, "prompt: Input should be a valid string")
        many = prompt if texts or isinstance(prompt[0], list) else [prompt]
        return [self._ids(part) if isinstance(part, str) else tuple(part) for part in many]

    def _ids(self, text: str, first: bool = True) -> Ids:
        """A text's ids; a llamacpp server with shifted echo is one whose tokenizer adds no first
        token.
        """
        shifted = self.ways.dialect == "llamacpp" and self.ways.shift_echo
        bare = shifted or not (first and self.ways.first_token)
        ids = tuple(self.model.tokenizer(text, add_special_tokens=not bare)["input_ids"])
        return ids or (self.model.tokenizer.bos_token_id,)

    def _conversation(self, messages: Any) -> Ids:
        if getattr(self.model.tokenizer, "chat_template", None):
            return tuple(
                self.model.tokenizer.apply_chat_template(messages, add_generation_prompt=True)[
                    "input_ids"
                ]
            )
        return self._ids("\n".join(message["content"] for message in messages))

    def _echo(self, body: dict[str, Any], prompts: list[Ids]) -> bool:
        if not body.get("echo") or self.ways.ignore_echo or self.ways.dialect == "bare":
            return False
        longest, limit = max(map(len, prompts)), self.ways.echo_limit
        if limit is not None and longest > limit:
            raise Refusal(400, f"echo of {longest} tokens is longer than the limit of {limit}.")
        return True

    def _k(self, given: int | bool | None) -> int | None:
        """How many log-probabilities a position gets; None is none at all."""
        if (
            given is None
            or given is False
            or self.ways.ignore_logprobs
            or self.ways.dialect == "bare"
        ):
            return None
        cap = (
            self.ways.top_k_cap
            if self.ways.top_k_cap is not None
            else {"vllm": 20}.get(self.ways.dialect, 1 << 30)
        )
        if int(given) > cap and self.ways.dialect == "vllm":
            raise Refusal(
                400,
                f"Requested sample logprobs of {given}, which is greater than max allowed: {cap}",
            )
        return min(int(given), cap)
