"""An MCP client on the official SDK of Python, led by lines of JSON: it starts a server over standard input and output and calls its tools.

In: first {"command", "args", "env", "name", "mode", "elicits", "tasks"}; then {"id", "call": [tool, arguments], "progress": bool}, {"id", "tools": true},
{"cancel": id}, {"id", "word": "accept" | "decline" | "cancel"}. Out: {"ready": true}, {"id", "result"} or {"id", "error"}, {"id", "progress"},
{"id", "asks": {...}}, {"changed": true}, {"task": its id}.
"""

import json
import sys
from typing import Any, Literal

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim
from mcp_types import CallToolResult, ElicitResult, Implementation, Request, Result


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def lines():
    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        yield json.loads(line)


class TaskResult(Result):
    result_type: Literal["task"]
    task_id: str


class TaskState(Result):
    result_type: Any = None
    status: str
    result: CallToolResult | None = None


class Tasks(ClientExtension):
    """The tasks of MCP 2026-07-28, which the SDK itself does not have: an answer that is a task is fetched until it is complete."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self):
        return [ResultClaim(result_type="task", model=TaskResult, resolve=self.fetch)]

    async def fetch(self, task, context):
        say(task=task.task_id)
        ask = Request[dict[str, Any], str](method="tasks/get", params={"taskId": task.task_id})
        while True:
            state = await context.session.send_request(ask, TaskState)
            if state.status == "completed":
                return state.result
            await anyio.sleep(0.2)


class Led:
    def __init__(self):
        self.words, self.calls, self.asked = {}, {}, 0

    async def elicit(self, _context, params):
        self.asked += 1
        number, heard = self.asked, anyio.Event()
        self.words[number] = [heard, None]
        say(id=number, asks=params.model_dump(mode="json", by_alias=True, exclude_none=True))
        await heard.wait()
        action = self.words[number][1]
        with_form = action == "accept" and params.mode == "form"
        return ElicitResult(action=action, content={} if with_form else None)

    async def answer(self, client, asked):
        number = asked["id"]

        async def progress(amount, _total, message):
            say(id=number, progress={"progress": amount, "message": message})

        with anyio.CancelScope() as self.calls[number]:
            try:
                if "tools" in asked:
                    result = await client.list_tools(cache_mode="bypass")
                else:
                    tool, arguments = asked["call"]
                    heard = progress if asked["progress"] else None
                    result = await client.call_tool(tool, arguments, progress_callback=heard)
                say(id=number, result=result.model_dump(mode="json", by_alias=True, exclude_none=True))
            except Exception as error:
                say(id=number, error=str(error))
        if self.calls[number].cancelled_caught:
            say(id=number, error="cancelled")


async def on_message(message):
    # Each frame comes here once; the SDK hands it to an open `listen` as well.
    if getattr(message, "method", None) == "notifications/tools/list_changed":
        say(changed=True)


async def listen(client):
    async with client.listen(tools_list_changed=True) as heard:
        async for _event in heard:
            pass


async def main():
    led, given = Led(), lines()
    start = await anext(given)
    server = StdioServerParameters(command=start["command"], args=start["args"], env=start["env"])
    client = Client(
        server,
        mode=start["mode"],
        client_info=Implementation(name=start["name"], version="1"),
        elicitation_callback=led.elicit if start["elicits"] else None,
        message_handler=on_message,
        extensions=[Tasks()] if start["tasks"] else None,
    )
    async with client, anyio.create_task_group() as group:
        if start["mode"] != "legacy":
            group.start_soon(listen, client)
        say(ready=True)
        async for line in given:
            if "word" in line:
                entry = led.words[line["id"]]
                entry[1] = line["word"]
                entry[0].set()
            elif "cancel" in line:
                led.calls[line["cancel"]].cancel()
            else:
                group.start_soon(led.answer, client, line)
        group.cancel_scope.cancel()


anyio.run(main)
