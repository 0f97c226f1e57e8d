#!/usr/bin/env python3
"""Writes templates.json: chat templates of the kinds that models have, and what Jinja (Debian: python3-jinja2), set up as
transformers sets it up, makes of them. tests/data/text/make_templates.py > tests/data/text/templates.json"""
import json
import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


ENVIRONMENT = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
ENVIRONMENT.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
ENVIRONMENT.globals["raise_exception"] = refuse

TURNS = [{"role": "user", "content": "Hi <there>\n"}, {"role": "assistant", "content": " Hello! "},
         {"role": "user", "content": "What's \"2+2\"? ½ 🦙"}]
SYSTEM = [{"role": "system", "content": " Be brief. "}] + TURNS
PARTS = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " Look. "}]}]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "a + b",
                                           "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}]
CALLS = TURNS[:1] + [{"role": "assistant", "content": "<think>\nhm\n</think>\n\nso", "tool_calls": [
    {"id": "abcdefghi", "type": "function", "function": {"name": "add", "arguments": {"a": 1.5, "b": [True, None, "x"]}}}]},
    {"role": "tool", "content": "3"}, {"role": "tool", "content": "4"}]

MARKED = """{% for m in messages %}
    {%- if loop.first and m['role'] != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}
    {{- '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

BRACKETS = """{%- if messages[0]['role'] == 'system' %}
    {%- set lead = messages[0]['content'] | trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set lead = '' %}
    {%- set rest = messages %}
{%- endif %}
{{- bos_token }}
{%- for m in rest %}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('user and assistant must take turns') }}
    {%- endif %}
    {%- if m['role'] == 'user' %}
        {%- if loop.index0 == 0 and lead %}
            {{- '[INST] <<SYS>>\\n' + lead + '\\n<</SYS>>\\n\\n' + m['content'].strip() + ' [/INST]' }}
        {%- else %}
            {{- '[INST] ' ~ m['content'].strip() ~ ' [/INST]' }}
        {%- endif %}
    {%- elif m['role'] == 'assistant' %}
        {{- ' ' + m['content'] | trim + ' ' + eos_token }}
    {%- else %}
        {{- raise_exception('only user, assistant and system: ' + m['role']) }}
    {%- endif %}
{%- endfor %}
"""

HEADERS = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{#- the first message may be a system's -#}
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"]|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
    {{- "Tools: " + tools | map(attribute='function.name') | reject('equalto', 'secret') | list | join(", ") + "\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" + system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' }}{{ call.arguments | tojson }}{{ "}<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}
        {%- else %}{{- message.content }}{%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

THINKING = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or (not loop.last and reasoning)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' }}{{- content }}{{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""

TURN = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set prefix = "" -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for message in turns -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("roles must alternate user/assistant/…") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\\n' }}
{%- endif -%}
"""

BARS = ("{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\n' + "
        "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + "
        "'<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}"
        "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")

# Small ones, for the grammar.
SMALL = [
    "", "plain { text } % #", "a\n", "a\n\n", "  {% if true %}\n x\n  {% endif %}\n y",
    "{{ 1 + 2 * 3 - 4 // 3 % 2 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 1.5 + 1 }} {{ 2 - -1 }}",
    "{{ 'a' 'b' ~ 1 ~ none ~ true }} {{ [1, 'x', {'a': none}] }} {{ (1, 2) | list }}",
    "{{ 'x' if false }}|{{ 'x' if 1 > 2 else 'y' if 2 > 1 else 'z' }}|{{ not true or 1 }}|{{ 0 or 'b' }}|{{ 'a' and 'b' }}",
    "{% for a in [1,2,3] if a != 2 %}{{ loop.index }}:{{ a }}{{ ',' if not loop.last }}{% else %}none{% endfor %}",
    "{% for a in [] %}x{% else %}none{% endfor %}{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for a in range(2, 10, 3) %}{% if a == 5 %}{% continue %}{% endif %}{{ a }}{% if a > 5 %}{% break %}{% endif %}{% endfor %}",
    "{% set x = 1 %}{% for a in [1, 2] %}{% set x = x + a %}{{ x }}{% endfor %}{{ x }}",
    "{% set n = namespace(x=1) %}{% for a in [1, 2] %}{% set n.x = n.x + a %}{% endfor %}{{ n.x }}",
    "{% set x %}a{{ 1 }}b{% endset %}{{ x | upper }}{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% macro m(a, b='z') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{% set c = 9 %}{{ m(1) }}{{ m('x', b='y') }}",
    "{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a-b-c'.split('-', 1) }} {{ 'xxaxx'.strip('x') }}|{{ ' a '.lstrip() }}|",
    "{{ 'Hello'[1:3] }} {{ 'Hello'[-1] }} {{ 'Hello'[::-1] }} {{ [1,2,3,4][1::2] }} {{ [1,2,3][:-1] }} {{ [1,2,3][5:] }} {{ [1,2,3][-1:0:-1] }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.find('c') }} {{ 'abcabc'.replace('b', '') }}",
    "{{ 'hello world foo'.title() }} {{ 'hELLO'.capitalize() }} {{ 'Äb' | lower }} {{ ['b', 'a'] | join('-') }} {{ 'ab' | first }}{{ [1,2] | last }}",
    "{{ x is defined }} {{ x is not defined }} {{ none is none }} {{ 'a' is string }} {{ 1 is number }} {{ {} is mapping }} {{ [] is iterable }} {{ true is boolean }} {{ 1 is integer }} {{ 3 is odd }} {{ 'a' is in ['a'] }}",
    "{{ x | default('d') }} {{ '' | default('d', true) }} {{ none | default('d') }} {{ x }}|",
    "{{ {'b': [1, 2.5, true, none, 'ä\"\\n'], 'a': {}} | tojson }} {{ [1, {'a': []}] | tojson(indent=2) }} {{ [] | tojson(indent=2) }}",
    "{{ [{'r': 'u', 'n': 1}, {'r': 'a', 'n': 2}] | selectattr('r', 'equalto', 'u') | map(attribute='n') | list }} {{ [1, 0, 2] | select | list }} {{ [{'r': 1}, {}] | rejectattr('r', 'defined') | list }}",
    "{{ 'a' in 'cat' }} {{ 'x' not in ['y'] }} {{ 'k' in {'k': 1} }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1] == [1] }} {{ {'a': 1} == {'a': 1} }} {{ none == false }}",
    "{{ '%}' }}{{ '}}' }}{# a {{ comment }} #}\n{{- ' x' -}}\n  y {%+ if true %} z{% endif +%}\n.",
    "{{ 'a\\tb\\\\c\\'d' }} {{ \"e'f\" }} {{ ['it\\'s', \"q\"] }} {{ '\\u00e9' }}",
    "{{ 'l1\nl2\n\nl3' | indent(2) }} {{ 'a\nb' | indent(3, true) }} {{ '12' | int + 1 }} {{ '1.5' | float }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 2) }} {{ {'a': 1, 'c': 2} | length }} {{ {'a': 1, 'c': 2}.keys() | list }}",
    "{% for a in 'ab' %}{% for b in [1, 2] %}{{ a }}{{ b }}{{ loop.revindex }}{{ loop.first }}{{ loop.length }} {% endfor %}{% endfor %}{{ [1, 2] + [3] }}",
    "{% for a in [1, 2, 3] %}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}{{ ' trim ' | trim }}|{{ 'a' | replace('a', 'b') }}{{ [3, 1] | reverse | list }}",
    "{{ missing.member }}", "{{ 1 + 'a' }}", "{{ 1 // 0 }}", "{{ raise_exception('no: ' ~ 1) }}", "{{ 'a'[9] }}|{{ [1][3] }}", "{{ 1 < 'a' }}",
]


def rendered(template, variables):
    try:
        return {"expected": ENVIRONMENT.from_string(template).render(**variables)}
    except (jinja2.exceptions.TemplateError, TypeError, ZeroDivisionError):
        return {"fails": True}


def main():
    cases = []
    names = {"bos_token": "<s>", "eos_token": "</s>"}
    for template in [MARKED, BRACKETS, HEADERS, THINKING, TURN, BARS]:
        for more in [{"messages": TURNS, "add_generation_prompt": True}, {"messages": SYSTEM, "add_generation_prompt": True},
                     {"messages": TURNS[:2], "add_generation_prompt": False}, {"messages": TURNS[1:], "add_generation_prompt": True},
                     {"messages": PARTS, "add_generation_prompt": True}, {"messages": CALLS, "tools": TOOLS, "add_generation_prompt": True},
                     {"messages": SYSTEM, "tools": TOOLS, "enable_thinking": False, "add_generation_prompt": True}]:
            variables = {**names, **more}
            cases.append({"template": template, "variables": variables, **rendered(template, variables)})
    for template in SMALL:
        cases.append({"template": template, "variables": names, **rendered(template, names)})
    print(json.dumps(cases, indent=0))


main()
