#!/usr/bin/env python3
"""Checks lines of JSON against a schema of launch/schemas: usage: validate_json.py SCHEMA LINES

Prints every fault with its line and place, and nothing if there is none. A line of a kind that the schema defines is
checked against that definition, because "none of these kinds" would not tell what is wrong with it.
"""
import json
import sys

from jsonschema import Draft202012Validator

schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
for number, line in enumerate(open(sys.argv[2]), 1):
    value = json.loads(line)
    kind = value.get("kind")
    wanted = {"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]} if kind in schema["$defs"] else schema
    for fault in Draft202012Validator(wanted).iter_errors(value):
        while fault.context:  # none of several alternatives: the one that fits the farthest tells why
            fault = max(fault.context, key=lambda of_one: len(of_one.absolute_path))
        place = "/".join(str(step) for step in fault.absolute_path)
        print(f"{number}: {kind or ''}/{place}: {fault.message[:300]}")
