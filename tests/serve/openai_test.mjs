// gyrus serve through OpenAI's own client: openai_test.mjs SERVER [arguments…], where SERVER prints its port.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';

let OpenAI;
try {
  ({ default: OpenAI } = await import('openai'));
} catch {
  console.log('the package openai is not installed (scripts/setup.sh --with-tests): skipped');
  process.exit(77);
}

const server = spawn(process.argv[2], process.argv.slice(3), { stdio: ['ignore', 'pipe', 'inherit'] });
const port = await new Promise((resolve) => server.stdout.once('data', (data) => resolve(Number(data))));
const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: 'secret', maxRetries: 0 });

try {
  const models = await client.models.list();
  assert.deepEqual(models.data.map((model) => model.id), ['stub']);
  assert.equal((await client.models.retrieve('stub')).owned_by, 'gyrus');

  const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Grüße, 🦙!' }];
  const chat = await client.chat.completions.create({ model: 'stub', messages });
  assert.equal(chat.choices[0].message.content, 'user: Grüße, 🦙!');
  assert.equal(chat.choices[0].finish_reason, 'stop');
  assert.equal(chat.usage.total_tokens, chat.usage.prompt_tokens + chat.usage.completion_tokens);

  const stream = await client.chat.completions.create(
      { model: 'stub', messages, stream: true, stream_options: { include_usage: true } });
  let text = '', finish = null, usage = null, pieces = 0;
  for await (const piece of stream) {
    ++pieces;
    text += piece.choices[0]?.delta?.content ?? '';
    finish = piece.choices[0]?.finish_reason ?? finish;
    usage = piece.usage ?? usage;
  }
  assert.equal(text, 'user: Grüße, 🦙!');
  assert.ok(pieces > 10 && finish === 'stop' && usage.completion_tokens === chat.usage.completion_tokens);

  const scores = await client.chat.completions.create(
      { model: 'stub', messages, logprobs: true, top_logprobs: 2, max_completion_tokens: 3 });
  assert.equal(scores.choices[0].finish_reason, 'length');
  assert.equal(scores.choices[0].logprobs.content.length, 3);
  assert.equal(scores.choices[0].logprobs.content[0].top_logprobs.length, 2);

  const plain = await client.completions.create({ model: 'stub', prompt: ['a b c', 'x'], stop: [' c'], max_tokens: 99 });
  assert.deepEqual(plain.choices.map((choice) => choice.text), ['a b', 'x']);

  const embeddings = await client.embeddings.create({ model: 'stub', input: ['ab', 'c'] });  // base64 on the wire
  assert.deepEqual([...embeddings.data[0].embedding], [3, 0.5, 98]);
  assert.equal(embeddings.data.length, 2);

  await assert.rejects(client.chat.completions.create({ model: 'stub', messages: [] }), OpenAI.BadRequestError);
  await assert.rejects(client.chat.completions.create({ model: 'stub', messages, n: 2 }), /must be 1/);
  await assert.rejects(client.completions.create({ model: 'stub', prompt: 'x'.repeat(5000) }),
      (error) => error.code === 'context_length_exceeded');
  await assert.rejects(client.chat.completions.create({ model: 'stub', messages: [{ role: 'user', content: 'fail' }] }),
      OpenAI.InternalServerError);
  const stranger = new OpenAI({ baseURL: client.baseURL, apiKey: 'wrong', maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);

  // Fifty at once, every fifth of which goes away.
  const answers = await Promise.all(Array.from({ length: 50 }, async (_, i) => {
    const one = await client.chat.completions.create(
        { model: 'stub', messages: [{ role: 'user', content: `number ${i}` }], stream: true });
    let all = '';
    for await (const piece of one) {
      all += piece.choices[0].delta.content ?? '';
      if (i % 5 === 0 && all) break;
    }
    return all;
  }));
  answers.forEach((answer, i) => i % 5 === 0 || assert.equal(answer, `user: number ${i}`));
  assert.equal((await client.models.list()).data.length, 1);
  console.log('the OpenAI client is content');
} finally {
  server.kill('SIGINT');
}
