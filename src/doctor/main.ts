/**
 * Owns `usher doctor`: for each part whose settings are in the environment, it checks whether the part can do
 * its work. It prints one line for each check, with the remedy if it failed. Contract: "What the service
 * does".
 */
import {
  ConfigFault,
  isConfigured,
  readAuthorityConfig,
  readClientConfig,
  readOrganizationConfig,
  readSidecarConfig,
  readTallyConfig,
  readWitnessConfig,
} from '../config.ts'
import { EXIT, UsageError, type ExitCode, type Terminal } from '../terminal/command.ts'
import { printable } from '../terminal/printable.ts'
import type { Look } from './look.ts'
import { examineOwner } from './owner.ts'
import { AUTHORITY, examineServer, ORGANIZATION, TALLY } from './servers.ts'
import { examineSidecar } from './sidecar.ts'
import { examineWitness } from './witness.ts'

/** A part, the variables that show that it is configured, and its checks. */
interface DoctorPart {
  name: string
  /** The prefixes of its own variables. */
  prefix: string
  isLookedAt: boolean
  examine: (look: Look) => Promise<void>
}

const partsOf = (sidecarFile: string | undefined): readonly DoctorPart[] => [
  {
    name: 'authority',
    prefix: 'UMA_AS_',
    isLookedAt: isConfigured('UMA_AS_'),
    examine: look => examineServer(look, () => readAuthorityConfig(), AUTHORITY),
  },
  {
    name: 'organization',
    prefix: 'UMA_ORG_',
    isLookedAt: isConfigured('UMA_ORG_'),
    examine: look => examineServer(look, () => readOrganizationConfig(), ORGANIZATION),
  },
  {
    name: 'tally',
    prefix: 'UMA_TALLY_',
    isLookedAt: isConfigured('UMA_TALLY_'),
    examine: look => examineServer(look, () => readTallyConfig(), TALLY),
  },
  {
    name: 'witness',
    prefix: 'UMA_WITNESS_',
    isLookedAt: isConfigured('UMA_WITNESS_'),
    examine: look => examineWitness(look, () => readWitnessConfig()),
  },
  {
    name: 'sidecar',
    prefix: 'UMA_PEP_',
    isLookedAt: sidecarFile !== undefined || isConfigured('UMA_PEP_'),
    examine: look => examineSidecar(look, () => readSidecarConfig(sidecarFile)),
  },
  {
    name: 'owner',
    prefix: 'UMA_OWNER_',
    isLookedAt: isConfigured('UMA_OWNER_'),
    examine: look => examineOwner(look, () => readClientConfig(), localIssuer),
  },
]

/**
 * Checks everything that the environment configures, and the sidecar of `sidecarFile` if one is named. Says
 * on standard error which parts nothing configures, so that nobody assumes that they were checked. Returns
 * the exit code: 0 if all is well. Throws `UsageError` if nothing is configured.
 */
export async function runDoctor(
  terminal: Terminal,
  { sidecarFile }: { sidecarFile?: string | undefined } = {},
): Promise<ExitCode> {
  const parts = partsOf(sidecarFile)
  const looked = parts.filter(({ isLookedAt }) => isLookedAt)
  if (looked.length === 0)
    throw new UsageError(
      `Set the variables of the parts to check: ${parts.map(({ prefix }) => `${prefix}…`).join(', ')} or name the file of a sidecar with --config (docs/configuration.md).`,
    )
  let faults = 0
  for (const { name, examine } of looked)
    await examine(async (what, check, toText = String) => {
      try {
        const found = await check()
        terminal.out(`ok    ${name} ${printable(what)}: ${printable(toText(found))}\n`)
        return found
      } catch (error) {
        faults++
        for (const fault of faultsOf(error))
          terminal.out(`FAIL  ${name} ${printable(what)}: ${printable(fault)}\n`)
        return undefined
      }
    })
  const others = parts.filter(({ isLookedAt }) => !isLookedAt)
  if (others.length > 0) terminal.err(`not looked at: ${others.map(nameWithPrefix).join(', ')}\n`)
  return faults === 0 ? EXIT.done : EXIT.refused
}

/**
 * The authority whose settings are in the environment, too; undefined if there is none. What its settings
 * lack is said by its own checks.
 */
function localIssuer(): string | undefined {
  if (!isConfigured('UMA_AS_')) return undefined
  try {
    return readAuthorityConfig().issuer
  } catch (error) {
    if (error instanceof ConfigFault) return undefined
    throw error
  }
}

const nameWithPrefix = ({ name, prefix }: DoctorPart): string => `${name} (no ${prefix}… is set)`

function faultsOf(error: unknown): string[] {
  if (error instanceof ConfigFault) return error.faults
  return [error instanceof Error ? error.message : String(error)]
}
