"""An agent of thirty lines with Gemini. Its one tool is a shell in a sandbox, with a policy of its own."""

import json
import os
import sys
import urllib.request

import corral

BASE = os.environ.get("GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")
URL = f"{BASE}/v1beta/models/gemini-2.5-pro:generateContent"


def ask(contents: list, tools: list) -> dict:
    body = {"contents": contents, "tools": [{"functionDeclarations": tools}]}
    headers = {"x-goog-api-key": os.environ["GEMINI_API_KEY"], "content-type": "application/json"}
    request = urllib.request.Request(URL, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["candidates"][0]["content"]


def work(task: str) -> None:
    contents = [{"role": "user", "parts": [{"text": task}]}]
    with corral.BashTool(corral.Sandbox("strict"), output_characters=8_000) as tool:
        while True:
            answer = ask(contents, [tool.gemini_schema()])
            contents.append(answer)
            results = []
            for part in answer["parts"]:
                if "text" in part:
                    print(part["text"])
                elif "functionCall" in part:
                    call = part["functionCall"]
                    told = tool.execute(call["args"])
                    response = {"name": call["name"], "response": {"output": told.text}}
                    results.append({"functionResponse": response})
            if not results:
                return
            contents.append({"role": "user", "parts": results})


if __name__ == "__main__":
    work(" ".join(sys.argv[1:]))
