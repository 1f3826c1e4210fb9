/**
 * docs/running.md, docs/owners.md, docs/deciding.md, docs/cells.md, docs/tally.md, docs/operating.md,
 * docs/policies.md, docs/rotate-keys.md, docs/restore.md, docs/retention.md and docs/sizing.md: every command
 * of these pages that is not excused, in order, against a real authority, a real sidecar and a Postgres of
 * the same version as the pg_dump and psql of this machine.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runPage, type Ran } from '../../support/pages.ts'
import { ROOT, tableRows } from '../../support/repository.ts'
import { describeWith, type Requirement } from '../../support/requirement.ts'

const INSTALLED = '/usr/lib/postgresql'
const TIMEOUT_MS = 400_000

/** The folder of a Postgres with its server and its clients, as Debian installs it. */
function postgres(): Requirement<string> {
  const versions = existsSync(INSTALLED) ? readdirSync(INSTALLED) : []
  const found = versions
    .map(version => join(INSTALLED, version, 'bin'))
    .find(bin => ['initdb', 'postgres', 'psql', 'pg_dump'].every(name => existsSync(join(bin, name))))
  return found === undefined
    ? { missing: "no Postgres with psql and pg_dump: install Debian's package postgresql", inCi: false }
    : { found }
}

/** What a reader of these pages has: a database, an authority, a sidecar, and alice with one agent. */
const running = (bin: string): string => `
cd ~
chmod 711 .
as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; }
export PATH="${bin}:$PATH"
mkdir database && chmod 777 database
as initdb -D database/data -U usher --auth=trust --encoding=UTF8 --locale=C > initdb.log 2>&1
as postgres -D database/data -p 9300 -k "$PWD/database" -c listen_addresses=127.0.0.1 > postgres.log 2>&1 &
until psql postgres://usher@127.0.0.1:9300/postgres -c 'SELECT 1' > /dev/null 2>&1; do sleep 0.2; done
export DATABASE_URL=postgres://usher@127.0.0.1:9300/postgres
umask 077
export UMA_DEV_LOOPBACK=true UMA_AS_ISSUER=http://127.0.0.1:9100 UMA_AS_KEYS_FILE=authority-keys.json
export UMA_AS_PROVISION=provision.yaml UMA_AS_DRAIN_MS=0
export UMA_OWNER_ISSUER=http://127.0.0.1:9100 UMA_OWNER_KEY=alice-key.json
usher owner key > alice.json
usher keys new authority-keys.json > /dev/null
usher keys new resource-keys.json > /dev/null
echo a-secret-of-more-than-16 > alice-secret
cat > provision.yaml <<EOF
owners:
  - owner: alice
    device_keys: [{ name: laptop, jwk: $(tr -d '\\n' < alice.json) }]
    resource_servers:
      - { client_id: brokerage-tools, name: Tools, client_secret_file: alice-secret, resource_uri: 'http://127.0.0.1:10000/mcp/alice' }
    resources:
      - { id: alice/portfolio, client_id: brokerage-tools, name: Portfolio, resource_scopes: [read] }
    tiers:
      - { id: reading, name: Reading, resources: [alice/portfolio], terms: { purpose: Reading, scope: [read], expires_in: 600 } }
EOF
cat > sidecar.yaml <<EOF
public_url: http://127.0.0.1:10000
listen: { check: 127.0.0.1:9191, http: 127.0.0.1:9192 }
keys_file: resource-keys.json
realm: tools
drain_ms: 0
owners:
  - owner: alice
    authority: http://127.0.0.1:9100
    client_id: brokerage-tools
    client_secret_file: alice-secret
    tools: [{ tool: portfolio_read, resource_id: alice/portfolio, scopes: [read] }]
EOF
declare -A process
answers() { curl -sf --retry 100 --retry-delay 1 --retry-connrefused "$1" > /dev/null; }
start() {
  case $1 in
  authority) usher authority >> authority.log 2>&1 & process[$1]=$!; answers http://127.0.0.1:9100/health ;;
  sidecar) usher sidecar --config sidecar.yaml >> sidecar.log 2>&1 & process[$1]=$!; answers http://127.0.0.1:9192/health ;;
  esac
}
stop() { kill "\${process[$1]}"; wait "\${process[$1]}"; unset "process[$1]"; }
restart() { if [ -n "\${process[$1]:-}" ]; then stop "$1"; fi; start "$1"; }
token() {
  curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:9100/token -d grant_type=client_credentials -d owner=alice -d scope=uma_protection \\
    -d client_id=brokerage-tools --data-urlencode "client_secret=$(cat "$1")"
}
start authority
psql "$DATABASE_URL" --quiet <<'EOF'
INSERT INTO connections (owner, handle, identity, status, generation) VALUES ('alice', 'jkt:known', 'pseudonymous', 'active', 1);
EOF
`

/** The second database of an authority, which runs again with it. */
const WITH_EAST = `
psql "$DATABASE_URL" --quiet -c 'CREATE DATABASE east'
export UMA_AS_CELLS=east=postgres://usher@127.0.0.1:9300/east
usher migrate > /dev/null
restart authority
`

/** What a page says that is not printed, by the line of its block. */
function untold(ran: Ran[]): object[] {
  return ran.flatMap(({ line, shows, printed }) =>
    shows.filter(what => !printed.includes(what)).map(what => ({ line, what, printed })),
  )
}

describeWith(postgres(), 'the commands of the pages for operators', bin => {
  test(
    'docs/policies.md reads a tier into a file, says what the file would change, and applies it',
    {
      timeout: TIMEOUT_MS,
    },
    async () => {
      const ran = await runPage('docs/policies.md', { before: running(bin), timeoutMs: TIMEOUT_MS })
      expect(ran).toHaveLength(1)
      expect(ran[0]!.printed).toContain('reading is as the file says.')
      expect(ran[0]!.printed).toContain('requests in your ledger would have been answered otherwise')
      expect(ran[0]!.printed).toContain('standing.approved_at_tier')
    },
  )

  test(
    'docs/operating.md prints the security events of a day, as JSON and in the Common Event Format',
    {
      timeout: TIMEOUT_MS,
    },
    async () => {
      const ran = await runPage('docs/operating.md', {
        // Reading the ledger gives its entries their positions.
        before: `${running(bin)}usher owner revoke jkt:known; usher owner ledger > /dev/null`,
        timeoutMs: TIMEOUT_MS,
      })
      expect(ran).toHaveLength(1)
      expect(ran[0]!.printed).toMatch(
        /^\{"id":"alice\/ledger\/\d+","at":"[^"]+","event":"revoked","owner":"alice"/m,
      )
      expect(ran[0]!.printed).toMatch(/^CEF:0\|usher\|usher authority\|[^|]+\|revoked\|revoked\|5\|rt=\d+ /m)
    },
  )

  test(
    'docs/running.md starts an authority of its own files, and an owner enrols with the printed code',
    { timeout: TIMEOUT_MS },
    async () => {
      const ran = await runPage('docs/running.md', {
        before: `${running(bin)}
stop authority
psql "$DATABASE_URL" --quiet -c 'CREATE DATABASE usher'
mkdir etc
sed '/device_keys/d; s,alice-secret,etc/alice-secret,' provision.yaml > etc/provision.yaml
cp alice-secret etc/alice-secret
export UMA_OWNER_KEY=laptop-key.json
`,
        readers: {
          '/etc/usher/': 'etc/',
          'https://as.example.com': 'http://127.0.0.1:9100',
          'postgres://usher:…@db.example.com/usher?sslmode=verify-full':
            'postgres://usher@127.0.0.1:9300/usher',
          'usher authority  ': 'usher authority >> page.log 2>&1 & answers http://127.0.0.1:9100/health ',
          'usher authority owner enrol alice  ': 'code=$(usher authority owner enrol alice) ',
          'enrol_…@http://127.0.0.1:9100': '"$code"',
        },
        after: 'usher owner keys; usher owner policies',
        timeoutMs: TIMEOUT_MS,
      })
      expect(ran).toHaveLength(2)
      expect(ran[1]!.printed).toContain('laptop')
      expect(ran[1]!.printed).toContain('reading')
    },
  )

  test(
    'docs/owners.md adds, moves and removes an owner, and makes the key of notifications',
    { timeout: TIMEOUT_MS },
    async () => {
      const ran = await runPage('docs/owners.md', {
        before: `${running(bin)}
${WITH_EAST}
mkdir archives
`,
        readers: { '/var/lib/usher/archives': 'archives' },
        after: 'ls archives; ls notification.json',
        timeoutMs: TIMEOUT_MS,
      })
      const printed = ran.map(one => one.printed).join('')
      expect(printed).toMatch(/bea is in east now/)
      expect(printed).toMatch(/bea is removed .*never given again/)
      expect(printed).toContain('notification.json')
      expect(ran).toHaveLength(2)
    },
  )

  test(
    'docs/deciding.md tells an owner at a webhook, and ends a recovery of hers',
    { timeout: TIMEOUT_MS },
    async () => {
      const ran = await runPage('docs/deciding.md', {
        before: `${running(bin)}
usher keys new-notification of-this-authority.json > /dev/null
export UMA_AS_RECOVERY_DELAY=1h UMA_AS_NOTIFICATION_KEY_FILE=of-this-authority.json
restart authority
usher authority owner enrol alice --recover > /dev/null
node -e 'require("http").createServer((q, s) => q.resume().on("end", () => s.writeHead(204).end())).listen(8080, "127.0.0.1")' &
`,
        readers: {
          'https://relay.example.com/hook': 'http://127.0.0.1:8080/hook',
          '<id>': '"$(usher owner notifications list | grep -o "sub_....")"',
        },
        after: 'usher owner recovery',
        timeoutMs: TIMEOUT_MS,
      })
      expect(ran[0]!.printed).toContain('sub_')
      expect(ran[1]!.printed).toContain('The recovery is ended.')
      expect(ran[1]!.printed).toContain('No recovery waits.')
      expect(ran).toHaveLength(2)
    },
  )

  test('docs/cells.md moves an owner to another database', { timeout: TIMEOUT_MS }, async () => {
    const ran = await runPage('docs/cells.md', {
      before: `${running(bin)}
psql "$DATABASE_URL" --quiet -c 'CREATE DATABASE east' -c 'CREATE DATABASE west'
`,
      readers: {
        'postgres://usher:secret@east.internal/usher': 'postgres://usher@127.0.0.1:9300/east',
        'postgres://usher:secret@west.internal/usher': 'postgres://usher@127.0.0.1:9300/west',
        // The page says to migrate and to replace the replicas in between.
        'usher authority owner move': 'usher migrate; restart authority; usher authority owner move',
      },
      after: 'usher authority owner list; usher owner connections',
      timeoutMs: TIMEOUT_MS,
    })
    expect(ran).toHaveLength(2)
    expect(ran[1]!.printed).toMatch(/alice is in east now \(\d+ rows\)/)
    expect(ran[1]!.printed).toContain('jkt:known')
  })

  test('docs/tally.md starts a tally with the file of the page', { timeout: TIMEOUT_MS }, async () => {
    const [, file] = /```yaml\n(# tally\.yaml[^]*?)```/.exec(
      readFileSync(join(ROOT, 'docs/tally.md'), 'utf8'),
    )!
    const ran = await runPage('docs/tally.md', {
      before: `${running(bin)}
psql "$DATABASE_URL" --quiet -c 'CREATE DATABASE tally'
mkdir etc
cp alice-secret etc/family-tools-secret
cat > etc/tally.yaml <<'EOF'
${file!.replaceAll('/etc/usher/', 'etc/')}EOF
`,
      readers: {
        '/etc/usher/': 'etc/',
        'https://tally.example.com': 'http://127.0.0.1:9400',
        'postgres://usher:…@db.example.com/tally?sslmode=verify-full':
          'postgres://usher@127.0.0.1:9300/tally',
        'usher tally  ': 'usher tally >> tally.log 2>&1 & answers http://127.0.0.1:9400/health ',
      },
      after: 'curl -s http://127.0.0.1:9400/mandate/family-1',
      timeoutMs: TIMEOUT_MS,
    })
    expect(ran).toHaveLength(1)
    expect(ran[0]!.printed).toMatch(/"kind":"all"/)
  })

  test(
    'docs/rotate-keys.md replaces the keys of an authority, a client secret, that by keys, and a device key',
    {
      timeout: TIMEOUT_MS,
    },
    async () => {
      const ran = await runPage('docs/rotate-keys.md', {
        before: `${running(bin)}cp alice-secret old-secret; start sidecar; echo "before: $(token old-secret)"
taken_over() { until [ "$(grep -c 'what it replaced is no longer taken' authority.log)" = "$1" ]; do sleep 0.2; done; }`,
        readers: {
          'usher keys public resource-keys.json >':
            'taken_over 1; echo "old: $(token old-secret), new: $(token alice-secret)"; usher keys public resource-keys.json >',
        },
        after: `taken_over 2; echo "secret: $(token alice-secret)"; usher doctor --config sidecar.yaml | grep 'key of alice' || true
usher owner keys || echo "old key: $?"`,
        timeoutMs: TIMEOUT_MS,
      })
      expect(untold(ran)).toEqual([])
      expect(ran.map(({ printed }) => printed).join('')).toContain('old: 401, new: 200')
      expect(ran.at(-1)!.printed).toContain('secret: 401')
      expect(ran.at(-1)!.printed).toMatch(/^ok +sidecar key of alice: the authority takes it/m)
      expect(ran.at(-1)!.printed).toContain('old key: 1')
    },
  )

  test(
    'docs/restore.md restores into an empty database, and ends every connection there',
    {
      timeout: TIMEOUT_MS,
    },
    async () => {
      const ran = await runPage('docs/restore.md', {
        before: running(bin),
        timeoutMs: TIMEOUT_MS,
        environment: {},
      })
      expect(untold(ran)).toEqual([])
      const [, restored, ended] = ran
      // Until that command, nothing may be served: what was revoked since the backup is in force again.
      expect(restored!.text).not.toContain('start authority')
      expect(ended!.text).toMatch(/^usher authority after-restore .*\n(restart authority)$/m)
      expect(ended!.printed).toMatch(/jkt:known +revoked/)
    },
  )

  test(
    'docs/retention.md lets the ledger go by its age, and keeps every receipt',
    { timeout: TIMEOUT_MS },
    async () => {
      // Rows from long ago, and rows from now.
      const aged = `usher owner revoke jkt:known
usher owner ban-origin https://tools.example.org
psql "$DATABASE_URL" --quiet <<'EOF'
UPDATE ledger SET ts = now() - interval '500 days' WHERE kind = 'revoked';
UPDATE due SET at = now() - interval '500 days' WHERE kind = 'sweep';
INSERT INTO receipts (owner, jti, family, handle, receipt) VALUES ('alice', 'rpt_old', 'fam_old', 'jkt:known', 'signed');
EOF
`
      const ran = await runPage('docs/retention.md', {
        before: `export UMA_AS_SWEEP_SECONDS=1\n${running(bin)}${aged}`,
        timeoutMs: TIMEOUT_MS,
      })
      expect(untold(ran)).toEqual([])
      const left = ran.find(({ text }) => text.includes('usher owner ledger'))!.printed
      expect(left).toContain('origin_banned')
      expect(left).not.toContain('revoked')
    },
  )

  test('docs/sizing.md asks Postgres', { timeout: TIMEOUT_MS }, async () => {
    const ran = await runPage('docs/sizing.md', { before: running(bin), timeoutMs: TIMEOUT_MS })
    expect(untold(ran)).toEqual([])
    expect(ran[0]!.printed).toMatch(/^\s*100\s+\d+\s*$/)
  })
})

test('docs/sizing.md counts connections as the defaults have it', () => {
  const settings = readFileSync(join(ROOT, 'docs/configuration.md'), 'utf8')
  const byDefault = (name: string): number =>
    Number(new RegExp(`^- \`${name}\` \\(\\d+ to \\d+ \\w+; default \`(\\d+)\`\\)`, 'm').exec(settings)![1])
  const one = byDefault('UMA_AS_CALL_POOL_MAX') + byDefault('UMA_AS_POOL_MAX') + 1
  const rows = tableRows(readFileSync(join(ROOT, 'docs/sizing.md'), 'utf8')).filter(({ heading }) =>
    heading.startsWith('Connections'),
  )
  expect(rows.length).toBeGreaterThan(2)
  for (const { cells } of rows) {
    const [replicas, running, starting, atLeast] = [...cells.values()].map(Number)
    expect([running, starting, atLeast]).toEqual([
      replicas! * one,
      (replicas! + 1) * one,
      (replicas! + 1) * one + 3,
    ])
  }
})
