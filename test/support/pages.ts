/**
 * Owns the commands that documents print: the fenced `sh` blocks of each page, the tests that run them
 * (test/docs/blocks.yaml), and how those of one page run in one shell, in the order of the page.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { ROOT } from './repository.ts'
import { usherProgram } from './usher-program.ts'

/** One `sh` block; `shows` are the lines of the `text` block after it, each a part of what it prints. */
export interface Block {
  text: string
  line: number
  shows: string[]
}

/** The `sh` blocks of a page, in order. */
export function blocksOf(markdown: string): Block[] {
  const fences = [...markdown.matchAll(/^ *```(\w*)\n([\s\S]*?)^ *```$/gm)]
  return fences.flatMap(([, language, text], at) => {
    if (language !== 'sh') return []
    const next = fences[at + 1]
    const shows = next?.[1] === 'text' ? next[2]!.trimEnd().split('\n') : []
    const line = markdown.slice(0, fences[at]!.index).split('\n').length
    return [{ text: text!.replace(/^ +/, ''), line, shows }]
  })
}

const LIST = z.array(
  z.union([
    z.strictObject({ page: z.string(), run_by: z.string() }),
    z.strictObject({ page: z.string(), begins: z.string(), not_run: z.string().min(20) }),
  ]),
)

/** What test/docs/blocks.yaml says. */
export function listedBlocks(): z.infer<typeof LIST> {
  return LIST.parse(parse(readFileSync(join(ROOT, 'test/docs/blocks.yaml'), 'utf8')))
}

/** The `sh` blocks of a page of this repository that the list does not excuse. */
export function runnableBlocks(page: string): Block[] {
  const excused = listedBlocks().flatMap(one => ('begins' in one && one.page === page ? [one.begins] : []))
  const blocks = blocksOf(readFileSync(join(ROOT, page), 'utf8'))
  return blocks.filter(({ text }) => !excused.includes(text.split('\n')[0]!))
}

/** What a block printed, both streams together, and how long it took. */
export interface Ran extends Block {
  printed: string
  seconds: number
}

interface Session {
  /** Set for the shell, which knows nothing else of this process but its PATH. */
  environment?: Record<string, string>
  /** What the blocks say of the reader's own, such as an address, and what stands for it here. */
  readers?: Record<string, string>
  /** Shell text that is run before the first block. */
  before?: string
  /** Shell text that is run after the last block, and whose output counts as that block's. */
  after?: string
  timeoutMs: number
}

/** The ports that pages name, as people are told them; each is replaced by a free one. */
const PRINTED_PORTS = [9100, 9101, 9102, 9191, 9192, 9300, 10000, 8080, 9400, 9402, 9301]

/** Makes `usher` a program of this shell, as an installed package does. `usher dev` is in no bundle. */
const PROGRAM = `mkdir "$HOME/bin"
cat > "$HOME/bin/usher" <<'SCRIPT'
#!/bin/sh
[ "$1" = dev ] && exec "${process.execPath}" "${join(ROOT, 'src/cli.ts')}" "$@"
exec "${process.execPath}" "${usherProgram()}" "$@"
SCRIPT
chmod +x "$HOME/bin/usher"
export PATH="$HOME/bin:$PATH"`

/**
 * Runs the blocks of a page in one bash that ends at the first failure, in its own home folder. Returns what
 * each printed. @throws with the block and what it printed, if one failed or took too long.
 */
export async function runPage(page: string, session: Session): Promise<Ran[]> {
  const ports = await freePorts(PRINTED_PORTS.length)
  const substituted = (text: string): string =>
    text.replace(/(?<![\w.])(\d{4,5})\b/g, whole => {
      const at = PRINTED_PORTS.indexOf(Number(whole))
      return at === -1 ? whole : String(ports[at])
    })
  const asHere = (text: string): string =>
    Object.entries(session.readers ?? {}).reduce(
      (whole, [theirs, ours]) => whole.replaceAll(theirs, ours),
      text,
    )
  const blocks = runnableBlocks(page).map(block => ({
    ...block,
    // Nobody is at a terminal here: it stands for the yes that the page has its reader answer.
    text: substituted(asHere(block.text)).replaceAll('usher owner approve ', 'usher owner approve --yes '),
    shows: block.shows.map(substituted),
  }))
  const script = [
    'set -eo pipefail',
    PROGRAM,
    substituted(session.before ?? ''),
    ...blocks.map(({ text }, at) => `printf '\\n@@ %s %s\\n' ${at} $(date +%s%3N)\n${text}`),
    substituted(session.after ?? ''),
    `printf '\\n@@ %s %s\\n' ${blocks.length} $(date +%s%3N)`,
  ].join('\n')
  const home = mkdtempSync(join(tmpdir(), 'usher-page-'))
  try {
    const { output, status } = await shell(
      script,
      home,
      {
        UMA_AS_LISTEN: `127.0.0.1:${ports[0]}`,
        UMA_AS_OWNER_LISTEN: `127.0.0.1:${ports[1]}`,
        UMA_AS_METRICS_LISTEN: `127.0.0.1:${ports[2]}`,
        UMA_TALLY_LISTEN: `127.0.0.1:${ports[8]}`,
        UMA_TALLY_METRICS_LISTEN: `127.0.0.1:${ports[9]}`,
        ...session.environment,
      },
      session.timeoutMs,
    )
    return judged(page, blocks, output, status)
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}

function judged(page: string, blocks: Block[], output: string, status: string): Ran[] {
  const marks = [...output.matchAll(/\n@@ (\d+) (\d+)\n/g)]
  const printedBy = (at: number): string =>
    output.slice(marks[at]!.index + marks[at]![0].length, marks[at + 1]?.index)
  if (marks.length !== blocks.length + 1) {
    const at = marks.length - 1
    const what = at < 0 ? 'what comes before its first block' : `the block at line ${blocks[at]!.line}`
    const took = marks.map(mark => Number(mark[2]) - Number(marks[0]![2]))
    throw new Error(
      `${page}: ${what} ended the shell (${status}; blocks began at ${took.join(', ')} ms):\n${at < 0 ? output : printedBy(at)}`,
    )
  }
  return blocks.map((block, at) => ({
    ...block,
    printed: printedBy(at),
    seconds: (Number(marks[at + 1]![2]) - Number(marks[at]![2])) / 1000,
  }))
}

/** Runs it from the repository's root; nothing that it started outlives it. */
function shell(
  script: string,
  home: string,
  environment: Record<string, string>,
  timeoutMs: number,
): Promise<{ output: string; status: string }> {
  return new Promise((resolve, reject) => {
    const env = { PATH: process.env['PATH'], HOME: home, TMPDIR: tmpdir(), ...environment }
    const child = spawn('bash', ['-c', script], {
      cwd: ROOT,
      env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    let late = false
    for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (output += String(chunk)))
    const end = (): void => {
      try {
        process.kill(-child.pid!, 'SIGKILL')
      } catch {
        // Nothing of it runs any more.
      }
    }
    const patience = setTimeout(() => {
      late = true
      end()
    }, timeoutMs)
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      clearTimeout(patience)
      end()
      const took = `took more than ${timeoutMs / 1000} s`
      child.once('close', () => resolve({ output, status: late ? took : (signal ?? `exit status ${code}`) }))
    })
  })
}
