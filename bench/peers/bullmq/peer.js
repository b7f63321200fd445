'use strict';
// The peer of `cargo xtask bench`: the service that most teams would build for this job in Node.js, tuned.
//
//   POST /events {idempotencyKey, recipients: [{id, url}], payload}
//     api:     INSERT job PENDING (committed before 202), then queue "events"
//     router:  UPDATE job, then one job per recipient on queue "deliver", in one bulk call
//     deliver: SET NX EX, INSERT log SENDING, POST to the recipient's url, UPDATE log SENT
//
// What it does less than Waybill: see README.md. What makes it fast: prepared statements, keep-alive, bulk adds, a wide pool.
//
// ROLE api | worker, CONCURRENCY jobs at once in each queue's worker, PORT, PGURL, PGMAX, REDIS_URL, REDIS_DB.
const { randomUUID } = require('node:crypto');
const http = require('node:http');
const axios = require('axios');
const { Queue, Worker } = require('bullmq');
const Redis = require('ioredis');
const { Pool } = require('pg');

const { ROLE, PORT, PGURL, REDIS_URL } = process.env;
const CONCURRENCY = Number(process.env.CONCURRENCY || 50);
const CUSTOMER = '00000000-0000-4000-8000-000000000000';
const LOCK_SECONDS = 300;

const address = new URL(REDIS_URL);
const connection = {
  host: address.hostname,
  port: Number(address.port),
  password: decodeURIComponent(address.password) || undefined,
  db: Number(process.env.REDIS_DB || 0),
  maxRetriesPerRequest: null,
};
const pool = new Pool({ connectionString: PGURL, max: Number(process.env.PGMAX || 20) });
const prepared = (name, text) => (values) => pool.query({ name, text, values });
const queue = (name) =>
  new Queue(name, {
    connection,
    defaultJobOptions: { removeOnComplete: 100, removeOnFail: 500, attempts: 3, backoff: { type: 'exponential', delay: 2000 } },
  });

async function api() {
  const insertJob = prepared(
    'insert-job',
    `INSERT INTO jobs (id, customer_id, type, status, priority, payload, idempotency_key) VALUES ($1, $2, 'WEBHOOK', 'PENDING', 5, $3, $4)
     ON CONFLICT (customer_id, idempotency_key) DO NOTHING`,
  );
  const events = queue('events');
  const app = require('fastify')({ logger: false });
  app.get('/ready', async () => (await pool.query('SELECT 1')).rowCount);
  app.post('/events', async (request, reply) => {
    const { idempotencyKey, recipients, payload } = request.body;
    if (!Array.isArray(recipients) || !recipients.length || !payload) {
      return reply.code(400).send({ error: 'recipients and payload are required' });
    }
    const id = randomUUID();
    const inserted = await insertJob([id, CUSTOMER, JSON.stringify(request.body), idempotencyKey]);
    if (!inserted.rowCount) return reply.code(409).send({ error: 'duplicate' });
    await events.add('event', { jobId: id, recipients, payload }, { jobId: id });
    return reply.code(202).send({ jobId: id, status: 'pending' });
  });
  await app.listen({ port: Number(PORT), host: '127.0.0.1' });
}

function worker() {
  const redis = new Redis(connection);
  const client = axios.create({
    httpAgent: new http.Agent({ keepAlive: true }),
    timeout: 30_000,
    validateStatus: (status) => status >= 200 && status < 300,
  });
  const markProcessing = prepared(
    'mark-processing',
    `UPDATE jobs SET status = 'PROCESSING', started_at = now(), updated_at = now(), attempts = $2 WHERE id = $1`,
  );
  const insertLog = prepared(
    'insert-log',
    `INSERT INTO delivery_logs (id, job_id, recipient, attempt, status) VALUES ($1, $2, $3, $4, 'SENDING')`,
  );
  const markSent = prepared('mark-sent', `UPDATE delivery_logs SET status = 'SENT', sent_at = now(), response = $2 WHERE id = $1`);
  const markFailed = prepared('mark-failed', `UPDATE delivery_logs SET status = 'FAILED', error_message = $2 WHERE id = $1`);
  const work = (name, handler) =>
    new Worker(name, handler, { connection, concurrency: CONCURRENCY }).on('error', (error) => console.error(name, error.message));

  const deliveries = queue('deliver');
  work('events', async ({ data, attemptsMade }) => {
    await markProcessing([data.jobId, attemptsMade + 1]);
    await deliveries.addBulk(
      data.recipients.map(({ id, url }) => ({
        name: 'delivery',
        data: { jobId: data.jobId, recipient: id, url, payload: data.payload },
        opts: { jobId: `${data.jobId}.${id}` },
      })),
    );
  });
  work('deliver', async ({ data, attemptsMade }) => {
    const lock = `lock:${data.jobId}:${data.recipient}`;
    if ((await redis.set(lock, '1', 'EX', LOCK_SECONDS, 'NX')) !== 'OK') return 'duplicate';
    const id = randomUUID();
    await insertLog([id, data.jobId, data.recipient, attemptsMade + 1]);
    try {
      const answer = await client.post(data.url, data.payload);
      await markSent([id, JSON.stringify({ statusCode: answer.status, body: answer.data })]);
    } catch (error) {
      await markFailed([id, error.message]);
      await redis.del(lock);
      throw error;
    }
  });
}

if (ROLE === 'api') api();
else worker();
process.on('SIGTERM', () => process.exit(0));
