"""An agent of thirty lines with OpenAI's chat completions, for asyncio. Its tool is a shell in a sandbox."""

import asyncio
import json
import os
import sys
import urllib.request

import corral

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"


def ask(messages: list, tools: list) -> dict:
    body = {"model": "gpt-5", "messages": messages, "tools": tools}
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "content-type": "application/json"}
    request = urllib.request.Request(URL, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]


async def work(task: str) -> None:
    messages = [{"role": "user", "content": task}]
    async with corral.AsyncBashTool() as tool:
        while True:
            answer = await asyncio.to_thread(ask, messages, [tool.openai_schema()])
            messages.append(answer)
            if answer.get("content"):
                print(answer["content"])
            for call in answer.get("tool_calls") or ():
                told = await tool.execute(json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": told.text})
            if not answer.get("tool_calls"):
                return


if __name__ == "__main__":
    asyncio.run(work(" ".join(sys.argv[1:])))
