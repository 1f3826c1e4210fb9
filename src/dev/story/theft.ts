/**
 * Owns the last step of the demo: somebody who can write the database changes one row of the ledger, and
 * `usher verify ledger` says which, by what the log had signed before. docs/proof.md. Contract: "Events" (row
 * 5). The thief goes to Postgres itself; alice uses the commands that anybody has.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readAll, type OwnerClient } from '../../owner/index.ts'
import { parseJsonObject } from '../../wire/json.ts'
import { headOfCheckpoint, type LedgerHead } from '../../wire/ledger/ledger-head.ts'
import { generatePrivateJwk, parseJwks } from '../../wire/signatures/keys.ts'
import { until } from '../stack/child-process.ts'
import { OWNER, writePrivate } from '../stack/household.ts'
import type { Stack } from '../stack/stack.ts'
import { rowsOf } from './database.ts'
import { usher } from './owner-command.ts'
import { expectEqual, expectThat, present, show, type Scene } from './scene.ts'
import { fetchJson, got, note, sent, type StoryStep } from './story.ts'

/** It needs a stack of this machine, whose authority has `logKeys`. */
export const THEFT: StoryStep = {
  title: 'A thief changes one row of the database; what the log had signed shows which',
  walk: theft,
}

/** Writes the keys of the log. @returns the setting of the authority that names them. */
export async function logKeys(directory: string): Promise<Record<string, string>> {
  const keys = `${JSON.stringify({ keys: [generatePrivateJwk()] })}\n`
  return { UMA_AS_LOG_KEYS_FILE: await writePrivate(directory, 'log-keys.json', keys) }
}

/** The command that finds it again, after the file was sourced that makes `usher` a command. */
export function findAgain(stack: Pick<Stack, 'directory'>): string {
  const files = filesOf(stack)
  return `usher ${exportTo(files.after).join(' ')} && usher ${verifyAfter(files).join(' ')}`
}

interface TheftFiles {
  /** Her ledger, exported before and after. */
  before: string
  after: string
  /** The head of before, and the keys that the log published then. */
  head: string
  keys: string
}

function filesOf({ directory }: Pick<Stack, 'directory'>): TheftFiles {
  const at = (name: string): string => join(directory, name)
  return {
    before: at('ledger-before.jsonl'),
    after: at('ledger-after.jsonl'),
    head: at('ledger-head.jsonl'),
    keys: at('ledger-keys.json'),
  }
}

const exportTo = (file: string): string[] => ['owner', 'ledger', 'export', file]
const verifyAfter = ({ after, keys, head }: TheftFiles): string[] =>
  ['verify', 'ledger', after].concat('--keys', keys, '--heads', head)

const [FROM, TO] = ['place_trade', 'portfolio_read']
const CHANGE = `UPDATE ledger SET data = replace(data::text, '${FROM}', '${TO}')::json
  WHERE owner = '${OWNER}' AND kind = 'touched' AND data ->> 'tool' = '${FROM}' RETURNING seq`

async function theft({ stack, owner }: Scene): Promise<string[]> {
  const files = filesOf(stack)
  const { before, after, head, keys } = files
  const seq = await tradeIn(owner)
  await writeFile(keys, `${JSON.stringify(await fetchJson(`${stack.issuer}/ledger/jwks`))}\n`)
  const headBefore = await until('a signed head that covers the trade', async () => {
    await usher(stack, exportTo(before))
    const read = await headIn(before, keys)
    return read.size >= seq && read
  })
  await writeFile(head, `${JSON.stringify({ ledger_head: headBefore })}\n`)
  const { out: good } = await usher(stack, ['verify', 'ledger', before, '--keys', keys])
  expectEqual('One row was changed, the one that tells of the trade.', await changeRow(stack), [seq])
  await usher(stack, exportTo(after))
  const { out: found } = await usher(stack, verifyAfter(files), 1)
  expectThat(
    'It names the entry.',
    found.every(line => line.startsWith(`entry: Entry ${seq} `)),
    found,
  )
  return [
    sent(`usher ${exportTo(before).join(' ')}; its head, and the keys of the log, are kept beside it`),
    got(good[0]!),
    sent(CHANGE.replace(/ RETURNING seq$/, '').replace(/\s+/g, ' ')),
    note(`the thief's, in Postgres: entry ${seq} told of ${FROM}, and now it tells of ${TO}`),
    sent(`usher ${exportTo(after).join(' ')}`),
    sent(`usher ${verifyAfter(files).join(' ')}`),
    ...found.map(got),
    note(`The row stays changed: usher owner ledger tells of ${TO} there, and her page warns of it.`),
    note('To begin anew, end this and run make demo again: each run has a database of its own.'),
  ]
}

/** The position of the entry that tells of the trade. */
async function tradeIn(owner: OwnerClient): Promise<number> {
  const entries = await readAll(owner.ledger())
  const trade = entries.find(({ kind, tool }) => kind === 'touched' && tool === FROM)
  return present('Her ledger tells of the trade.', trade).seq
}

/** The head of an exported ledger, whose log has one key. */
async function headIn(file: string, keysFile: string): Promise<LedgerHead> {
  const [first = ''] = (await readFile(file, 'utf8')).split('\n', 1)
  const [key] = parseJwks(parseJsonObject(await readFile(keysFile, 'utf8')))
  const kid = present('The log publishes its key.', key?.kid)
  return headOfCheckpoint(show(parseJsonObject(first)['checkpoint']), kid)
}

/** @returns the positions of the changed entries. */
async function changeRow(stack: Stack): Promise<number[]> {
  const rows = await rowsOf<{ seq: string }>(stack, { name: 'thief', statement: CHANGE })
  return rows.map(({ seq }) => Number(seq))
}
