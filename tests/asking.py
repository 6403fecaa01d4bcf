"Requests of messages that a test has written by hand, and questions to a service."
import asyncio

from cosee.models.client import Request, merged


def raw(messages, schema=None, **settings):
    "A request that is sent as it is."
    return Request(messages=tuple(messages), schema=schema, settings=settings)


def chat_many(client, batch, schema=None, params=None, errors="raise", **shared):
    "Replies to several prompts; `schema` is one for all or a list, `params` are settings of each over those of all."
    schemas = schema if isinstance(schema, list) else [schema] * len(batch)
    rows = zip(batch, schemas, params or [{}] * len(batch), strict=True)
    return client.respond_many([raw(m, s, **merged(shared, p)) for m, s, p in rows], errors=errors)


def ask_and_wait(service, *asked):
    "The job of a question that a service was asked, when it is over."
    async def answered():
        job = await service.ask(*asked)
        assert await job.wait(110)
        return job
    return asyncio.run(answered())
