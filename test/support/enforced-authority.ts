/**
 * Owns an authority at its own address, as an enforcement point and agents reach it, which has her resource
 * where that enforcement point serves it.
 */
import { freePorts } from '../../src/dev/stack/ports.ts'
import { PUBLIC_URL } from '../enforcement/calls.ts'
import { startTestAuthority, type TestAuthority } from './authority.ts'

/** @param environment further settings. */
export async function startEnforcedAuthority(
  environment: Record<string, string> = {},
  resource = `${PUBLIC_URL}/mcp/alice`,
): Promise<TestAuthority> {
  const address = `127.0.0.1:${(await freePorts(1))[0]}`
  const own = { UMA_AS_ISSUER: `http://${address}`, UMA_AS_LISTEN: address, UMA_DEV_LOOPBACK: 'true' }
  return startTestAuthority({
    environment: { ...own, ...environment },
    provision: document => {
      document.owners[0]!.resource_servers[0]!.resource_uri = resource
      return document
    },
  })
}
