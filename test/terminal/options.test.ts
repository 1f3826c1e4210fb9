/**
 * Every option of every command arrives, or is refused: none is taken by a parent and dropped. Contract,
 * "Owner API", "What the service does".
 */
import { Command, type Option } from 'commander'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { runAdmin } from '../../src/admin/main.ts'
import { runAgent } from '../../src/agent/main.ts'
import { runOwner } from '../../src/owner/main.ts'
import { capturedTerminal } from '../support/captured-terminal.ts'

afterEach(() => vi.restoreAllMocks())

/** The tree of commands that a program parses its arguments by. */
async function treeOf(run: typeof runOwner): Promise<Command> {
  const seen: Command[] = []
  vi.spyOn(Command.prototype, 'parseAsync').mockImplementation(async function (this: Command) {
    seen.push(this)
    return this
  })
  await run([], capturedTerminal())
  vi.restoreAllMocks()
  return seen[0]!
}

/** Each command that does something, with those above it, the program first. */
function commandsOf(command: Command, above: Command[] = []): Command[][] {
  const line = [...above, command]
  const own = isRun(command) ? [line] : []
  return [...own, ...command.commands.flatMap(sub => commandsOf(sub, line))]
}

function isRun(command: Command): boolean {
  return (command as unknown as { _actionHandler: unknown })._actionHandler !== null
}

const VALUES = ['5', '2h', '2026-11-21T09:00Z', 'https://x.example']

/** A value that the option takes. */
function valueFor({ argChoices, parseArg }: Option): string {
  if (argChoices !== undefined) return argChoices[0]!
  const taken = VALUES.find(value => {
    try {
      parseArg?.(value, undefined as never)
      return true
    } catch {
      return false
    }
  })
  return taken ?? VALUES[0]!
}

const argumentsFor = (option: Option): string[] =>
  option.required || option.optional ? [option.long!, valueFor(option)] : [option.long!]

describe.each([
  ['usher owner', runOwner],
  ['usher admin', runAdmin],
  ['usher agent', runAgent],
])('each option of %s', (_name, run) => {
  it('arrives at the command that it follows, if it stands last', async () => {
    const lost: string[] = []
    let tried = 0
    for (const line of commandsOf(await treeOf(run))) {
      const [program, ...path] = line
      const command = line.at(-1)!
      let arrived: Record<string, unknown> = {}
      command.action(() => void (arrived = command.optsWithGlobals()))
      const words = path.map(one => one.name())
      const operands = command.registeredArguments.filter(one => one.required).map(() => 'https://x.example')
      for (const option of line.flatMap(one => one.options)) {
        const needed = command.options.filter(one => one.mandatory && one !== option).flatMap(argumentsFor)
        arrived = {}
        await program!.parseAsync([...words, ...operands, ...needed, ...argumentsFor(option)], {
          from: 'user',
        })
        tried++
        if (arrived[option.attributeName()] === undefined) lost.push(`${words.join(' ')} ${option.long}`)
      }
    }
    expect(lost).toEqual([])
    expect(tried).toBeGreaterThan(30)
  })

  it('is of one command alone, so that no parent takes what is for its own', async () => {
    const twice = commandsOf(await treeOf(run)).flatMap(line => {
      const command = line.at(-1)!
      const above = line.slice(0, -1).flatMap(one => one.options.map(({ long }) => long))
      return command.options
        .filter(({ long }) => above.includes(long))
        .map(({ long }) => `${command.name()} ${long}`)
    })
    // These read both (test/agent/bridge/config-options.test.ts, test/owner/ledger-export.test.ts).
    const readsBoth = /^((config|doctor) --(listen|listen-token-file|client-name)|export --handle)$/
    expect(twice.filter(one => !readsBoth.test(one))).toEqual([])
  })
})

it('a bridge option that its doctor would drop is refused', async () => {
  const terminal = capturedTerminal()
  const args = ['bridge', 'doctor', 'https://x.example/mcp', '--hold', '5', '--stdio']
  expect(await runAgent(args, terminal)).toBe(2)
  expect(terminal.said).toBe(
    'Leave --stdio and --hold out: usher agent bridge doctor takes --client-name alone.\n',
  )
})
