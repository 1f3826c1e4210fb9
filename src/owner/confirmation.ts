/**
 * Owns how a command that opens something asks for her yes: at a terminal, after it has shown what it opens.
 * Contract: "Owner API".
 */
import { EXIT, Exit, UsageError } from '../terminal/command.ts'
import type { OwnerSession } from './session.ts'

/** Whether she says that she need not be asked. */
export interface YesOption {
  yes?: boolean
}

/**
 * Ends the command if nobody can be asked and she did not say `--yes`: a script has to say it, because an
 * empty answer would count as one.
 */
export function requireAnswer(
  { terminal: { confirm }, json }: OwnerSession,
  { yes = false }: YesOption,
): void {
  if (!yes && (json || confirm === undefined))
    throw new UsageError(
      'Run this at a terminal, which shows what it changes and asks you; or add --yes to be asked nothing.',
    )
}

/** Shows `text` and asks `question`, unless she said `--yes`; ends the command after a no. */
export async function askForYes(
  session: OwnerSession,
  options: YesOption,
  { text, question }: { text: string; question: string },
): Promise<void> {
  requireAnswer(session, options)
  const { terminal, json } = session
  if (!json) terminal.err(text)
  if (options.yes === true || (await terminal.confirm?.(question)) === true) return
  terminal.err('Nothing was changed.\n')
  throw new Exit(EXIT.refused)
}
