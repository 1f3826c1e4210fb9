/**
 * Owns `usher admin`: the administration of an organization from a command line. Contract: "The
 * organization's authority". Tables for people, `--json` for scripts; what strangers wrote is escaped before
 * it reaches the terminal.
 */
import type { Command } from 'commander'
import { apiEnding, createProgram, type ClientSettings } from '../client/program.ts'
import { readClientConfig } from '../config.ts'
import { processTerminal, runCommand, type Terminal } from '../terminal/command.ts'
import { addAgentCommands } from './agent-commands.ts'
import { addCharterCommands, addGroupCommands } from './charter-commands.ts'
import { createAdminClient } from './client.ts'
import { addBreakGlass, addInvitationCommands, addMemberCommands } from './member-commands.ts'

/** Runs `usher admin` with the arguments after it. Returns the exit code (see `terminal/command.ts`). */
export function runAdmin(args: readonly string[], terminal: Terminal = processTerminal): Promise<number> {
  const program = adminCommand(terminal)
  return runCommand(program, args, terminal, error =>
    apiEnding(error, { asJson: program.opts<{ json?: boolean }>().json === true }),
  )
}

function adminCommand(terminal: Terminal): Command {
  const { command, action } = createProgram(
    {
      name: 'usher admin',
      description:
        'Administer an organization: its charter, groups, members and invitations. With your device key, or a token of its realm.',
      called: 'the administration',
      party: 'the organization',
      prefix: 'UMA_ADMIN',
      power: 'administers as you',
      settings,
      connect: createAdminClient,
    },
    terminal,
  )
  addCharterCommands(command, action)
  addGroupCommands(command, action)
  addMemberCommands(command, action)
  addInvitationCommands(command, action)
  addBreakGlass(command, action)
  addAgentCommands(command, action)
  return command
}

function settings(): ClientSettings {
  const { adminIssuer: issuer, adminApi: api, adminToken: token, adminKey: key } = readClientConfig()
  return { issuer, api, token, key }
}
