"""An agent of thirty lines with Anthropic's Messages. Its one tool is a shell in a sandbox."""

import json
import os
import sys
import urllib.request

import corral

URL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"


def ask(messages: list, tools: list) -> dict:
    body = {"model": "claude-sonnet-4-5", "max_tokens": 4096, "messages": messages, "tools": tools}
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
    headers["content-type"] = "application/json"
    request = urllib.request.Request(URL, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def work(task: str) -> None:
    messages = [{"role": "user", "content": task}]
    with corral.BashTool() as tool:
        while True:
            answer = ask(messages, [tool.anthropic_schema()])
            messages.append({"role": "assistant", "content": answer["content"]})
            results = []
            for block in answer["content"]:
                if block["type"] == "text":
                    print(block["text"])
                elif block["type"] == "tool_use":
                    told = tool.execute(block["input"])
                    result = {"type": "tool_result", "tool_use_id": block["id"]}
                    results.append({**result, "content": told.text, "is_error": told.is_error})
            if not results:
                return
            messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    work(" ".join(sys.argv[1:]))
