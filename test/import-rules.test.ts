/**
 * The import rules of docs/architecture.md, each shown red: one violation per rule is planted in a copy of
 * the sources, which the rules are then run over once. A rule whose pattern no longer matches anything, or
 * that has no planted violation, fails here.
 */
import { appendFileSync, cpSync, existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { cruise, type ICruiseResult, type IViolation } from 'dependency-cruiser'
import extractOptions from 'dependency-cruiser/config-utl/extract-depcruise-options'
import extractTsConfig from 'dependency-cruiser/config-utl/extract-ts-config'
import { beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from './support/repository.ts'
import { temporaryFolder } from './support/temporary-folder.ts'

interface Plant {
  rule: string
  /** The file that breaks the rule. One that the rule names must be there; another is made. */
  file: string
  /** What is written into it. */
  code: string
  /** What the rule is to complain of: a part of the path that was reached. */
  reached: string
}

const plant = (rule: string, file: string, imported: string, reached: string): Plant => ({
  rule,
  file: `src/${file}`,
  code: `import '${imported}'\n`,
  reached,
})

const KEEPERS = ['authority', 'organization', 'tally', 'witness']

/** Every file that is planted is called so, where the rule itself names none. */
const PLANTS: Plant[] = [
  plant('wire-is-the-floor', 'wire/planted.ts', '../rules/pending-queue.ts', 'src/rules/'),
  plant('documents-are-schemas', 'wire/documents/planted.ts', '../../rules/pending-queue.ts', 'src/rules/'),
  plant('wire-core-is-crypto-only', 'wire/planted.ts', 'node:fs', 'fs'),
  plant('rules-are-pure', 'rules/planted.ts', '../http/telemetry/log.ts', 'src/http/'),
  plant('rules-touch-no-core-module', 'rules/planted.ts', 'node:crypto', 'crypto'),
  plant('verifiers-are-pure', 'verify/planted.ts', '../terminal/command.ts', 'src/terminal/'),
  plant('rules-touch-no-core-module', 'verify/planted.ts', 'node:crypto', 'crypto'),
  plant('limits-are-the-floor', 'limits/planted.ts', '../wire/signatures/keys.ts', 'src/wire/'),
  plant('limits-touch-no-core-module', 'limits/planted.ts', 'node:timers', 'timers'),
  plant('native-knows-wire-alone', 'native/planted.ts', '../http/telemetry/log.ts', 'src/http/'),
  plant('native-code-only-in-native', 'authority/planted.ts', 'sodium-native', 'sodium-native'),
  plant('files-are-the-floor', 'files/planted.ts', '../wire/signatures/keys.ts', 'src/wire/'),
  plant('storage-below-parties', 'storage/core/planted.ts', '../../authority/context.ts', 'src/authority/'),
  plant(
    'storage-core-serves-every-party',
    'storage/core/planted.ts',
    '../authority/ledger/ledger.ts',
    'ledger',
  ),
  plant('sql-only-in-storage', 'authority/planted.ts', 'pg', 'node_modules/pg/'),
  plant('http-knows-no-party', 'http/planted.ts', '../authority/context.ts', 'src/authority/'),
  plant('surface-knows-no-party', 'surface/planted.ts', '../authority/context.ts', 'src/authority/'),
  plant('credentials-know-no-party', 'credentials/planted.ts', '../authority/context.ts', 'src/authority/'),
  plant('sockets-only-in-http', 'authority/planted.ts', 'node:https', 'https'),
  ...KEEPERS.map(party =>
    plant('servers-of-owners-join-layers', `${party}/planted.ts`, 'commander', 'commander'),
  ),
  plant(
    'rows-have-one-party',
    'tally/planted.ts',
    '../storage/authority/ledger/ledger.ts',
    'src/storage/authority/',
  ),
  plant(
    'enforcement-has-no-database',
    'enforcement/planted.ts',
    '../storage/authority/sweep.ts',
    'src/storage/',
  ),
  plant(
    'verdicts-are-counted-apart',
    'enforcement/joint/planted.ts',
    '../organization/ceiling.ts',
    'src/enforcement/organization/',
  ),
  ...['agent', 'owner', 'admin'].map(party =>
    plant('agent-is-light', `${party}/planted.ts`, '../http/telemetry/log.ts', 'src/http/'),
  ),
  plant('bridge-speaks-mcp', 'agent/bridge/planted.ts', '../../http/telemetry/log.ts', 'src/http/'),
  plant('terminal-is-below-parties', 'terminal/planted.ts', '../owner/index.ts', 'src/owner/'),
  plant('client-is-below-parties', 'client/planted.ts', '../owner/index.ts', 'src/owner/'),
  plant('config-is-below-parties', 'config/planted.ts', '../storage/authority/sweep.ts', 'src/storage/'),
  plant('dev-goes-by-public-doors', 'dev/planted.ts', '../storage/authority/sweep.ts', 'src/storage/'),
  plant('nobody-imports-dev', 'storage/core/planted.ts', '../../dev/stack/ports.ts', 'src/dev/'),
  plant('doctor-asks-as-anybody-may', 'doctor/planted.ts', '../authority/context.ts', 'src/authority/'),
  plant('console-is-a-page', 'console/planted.ts', '../owner/client.ts', 'src/owner/'),
  plant(
    'console-runs-in-browsers',
    'console/planted.ts',
    '../wire/signatures/keys.ts',
    'src/wire/signatures/keys',
  ),
  plant('nobody-imports-console', 'files/planted.ts', '../console/words.ts', 'src/console/'),
  plant('cli-loads-one-party', 'cli.ts', './owner/main.ts', 'src/owner/'),
  plant('cli-sees-only-mains', 'cli.ts', './owner/client.ts', 'src/owner/client'),
  plant('agent-closure-is-light', 'agent/index.ts', 'fastify', 'fastify'),
  plant(
    'embedded-closure-is-light',
    'enforcement/doors/embedded/index.ts',
    '../../../terminal/command.ts',
    'src/terminal/',
  ),
  plant('embedded-knows-fastify-by-type', 'enforcement/doors/embedded/planted.ts', 'fastify', 'fastify'),
  plant('parties-meet-on-the-wire', 'owner/planted.ts', '../agent/planted.ts', 'src/agent/'),
  plant('nobody-imports-cli', 'terminal/planted.ts', '../cli.ts', 'src/cli.ts'),
  plant('config-only-in-main', 'authority/planted.ts', '../config/settings.ts', 'src/config/'),
  plant('no-circular', 'rules/pending-queue.ts', './planted-circle.ts', 'src/rules/planted-circle.ts'),
  {
    rule: 'no-unreachable',
    file: 'src/wire/planted-alone.ts',
    code: 'export {}\n',
    reached: 'planted-alone',
  },
  plant('src-not-to-test', 'http/planted.ts', '../../test/planted.ts', 'test/planted.ts'),
]

/** What plants import, and what breaks no rule by itself. */
const SOIL = {
  'src/rules/planted-circle.ts': "import './pending-queue.ts'\n",
  'src/storage/tally/planted.ts': 'export {}\n',
  'test/planted.ts': 'export {}\n',
}

const folder = temporaryFolder('imports')
let forbidden: string[]
let violations: IViolation[]

beforeAll(async () => {
  for (const name of ['src', 'package.json', 'tsconfig.json'])
    cpSync(join(ROOT, name), join(folder, name), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  for (const [file, code] of [
    ...Object.entries(SOIL),
    ...PLANTS.map(({ file, code }) => [file, code] as const),
  ]) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    appendFileSync(
      join(folder, file),
      `
${code}`,
    )
  }
  const { cache: _cache, ...options } = await extractOptions(join(ROOT, '.dependency-cruiser.cjs'))
  forbidden = (options.ruleSet?.forbidden ?? []).map(({ name }) => name!)
  const tsConfig = extractTsConfig(join(folder, 'tsconfig.json'))
  const { output } = await cruise(['src'], { ...options, baseDir: folder }, undefined, { tsConfig })
  violations = (output as ICruiseResult).summary.violations
  // All of src is parsed: a busy machine takes minutes.
}, 240_000)

describe('Each import rule of docs/architecture.md', () => {
  it('has a violation planted for it here', () => {
    const planted = new Set(PLANTS.map(({ rule }) => rule))
    expect(forbidden.filter(rule => !planted.has(rule))).toEqual([])
    expect(forbidden).toHaveLength(planted.size)
  })

  it('holds each folder of src by what it may import, and not only by what all may not', () => {
    const general =
      /^(nobody-imports|parties-meet|sockets-only|sql-only|config-only|src-not-to-test|no-circular|no-unreachable)/
    const held = PLANTS.filter(({ rule }) => !general.test(rule)).map(({ file }) => file.split('/')[1])
    const folders = readdirSync(join(ROOT, 'src'), { withFileTypes: true }).filter(one => one.isDirectory())
    expect(folders.map(({ name }) => name).filter(name => !held.includes(name))).toEqual([])
  })

  it.each(PLANTS)('$rule is broken by $file with $code', ({ rule, file, reached }) => {
    const found = violations.filter(violation => violation.rule.name === rule)
    expect(found.map(({ from, to }) => `${from} -> ${to}`)).toContainEqual(
      expect.stringMatching(new RegExp(`${file}.* -> .*${reached}`)),
    )
  })

  it('is broken by what was planted, and by nothing else', () => {
    const planted = new Set([...Object.keys(SOIL), ...PLANTS.map(({ file }) => file)])
    const others = violations.filter(({ from, to }) => !planted.has(from) && !planted.has(to))
    expect(others).toEqual([])
  })

  it('names only files that are there', () => {
    const named = PLANTS.map(({ file }) => file).filter(file => !/planted/.test(file))
    expect(named.filter(file => !existsSync(join(ROOT, file)))).toEqual([])
  })
})
