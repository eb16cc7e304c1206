"""Defines and triggers a job as a Python program would, and prints the verdicts, one JSON line each."""

import asyncio
import json
import sys

import nats


async def ask(client, subject, body, **headers):
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    stored = await client.jetstream().publish(
        subject, body.encode(), headers={"Cron-Reply": inbox, **headers}
    )
    verdict = json.loads((await answers.next_msg(timeout=20)).data)
    assert verdict["command"] == stored.seq, (verdict, stored.seq)
    print(json.dumps(verdict))
    return verdict


async def main(url):
    client = await nats.connect(url)
    definition = {
        "task": "effect",
        "schedule": {"cron": "0 3 1 1 *"},
        "time_zone": "Europe/Berlin",
        "params": {"from": "python"},
    }
    defined = await ask(client, "cron.define.foreign.python", json.dumps(definition))
    revision = str(defined["outcome"]["accepted"]["revision"])
    await ask(client, "cron.define.foreign.python", '{"task":"a b","shedule":{}}')
    wrong = {"Cron-Expected-Revision": "1" + revision}
    await ask(client, "cron.define.foreign.python", json.dumps(definition), **wrong)
    right = {"Cron-Expected-Revision": revision}
    await ask(client, "cron.define.foreign.python", json.dumps(definition), **right)
    trigger = '{"key":"py-1","params":{"n":12345678901234567890}}'
    await ask(client, "cron.trigger.foreign.python", trigger)
    await ask(client, "cron.trigger.foreign.python", trigger)
    await client.close()


asyncio.run(main(sys.argv[1]))
