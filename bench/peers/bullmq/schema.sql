CREATE TABLE customers (id uuid PRIMARY KEY, plan text NOT NULL DEFAULT 'STARTUP');
INSERT INTO customers (id) VALUES ('00000000-0000-4000-8000-000000000000');

CREATE TABLE jobs (
  id uuid PRIMARY KEY,
  customer_id uuid NOT NULL REFERENCES customers (id),
  type text NOT NULL,
  status text NOT NULL,
  priority int NOT NULL DEFAULT 5,
  payload jsonb,
  attempts int NOT NULL DEFAULT 0,
  max_attempts int NOT NULL DEFAULT 3,
  error_message text,
  idempotency_key text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  completed_at timestamptz,
  UNIQUE (customer_id, idempotency_key)
);
-- What a service of this kind has for its lists and its dashboard.
CREATE INDEX ON jobs (customer_id, created_at DESC);
CREATE INDEX ON jobs (customer_id, status, created_at DESC);
CREATE INDEX ON jobs (status);
CREATE INDEX ON jobs (type);
CREATE INDEX ON jobs (created_at DESC);

CREATE TABLE delivery_logs (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  recipient text NOT NULL,
  attempt int NOT NULL,
  status text NOT NULL,
  response jsonb,
  error_message text,
  created_at timestamptz NOT NULL DEFAULT now(),
  sent_at timestamptz
);
CREATE INDEX ON delivery_logs (job_id);
CREATE INDEX ON delivery_logs (created_at DESC);
