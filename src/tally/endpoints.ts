/**
 * Everything that a tally serves, and what OpenAPI says of it as a whole. Contract: "Tally for a jointly held
 * resource".
 */
import type { Described } from '../http/servers/endpoint.ts'
import { HEALTH, READY } from '../http/servers/health.ts'
import { OPENAPI_ENDPOINT, RUNNING, type AboutListener } from '../http/openapi/openapi.ts'
import { SURFACE, SURFACE_CHAPTERS } from '../surface/surface.ts'
import { ACCESSES } from './accesses.ts'
import { MANDATE } from './mandates.ts'
import { WITHDRAWAL } from './withdrawals.ts'

export const ENDPOINTS: readonly Described[] = [
  ...SURFACE,
  MANDATE,
  WITHDRAWAL,
  ACCESSES,
  HEALTH,
  READY,
  OPENAPI_ENDPOINT,
]

const securitySchemes = {
  pat: { type: 'http', scheme: 'bearer', description: 'A PAT of the resource server.' },
  holder: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'An ext-accesses-req+jwt that the authorization server of a holder of the account signed.',
  },
}

/** A tally's own part of the document; `server` is its own address. */
export const aboutListener = (server: string): AboutListener => ({
  title: 'usher: tally',
  description: 'What agents, resource servers and holders ask of the tally of jointly held accounts.',
  server,
  chapters: [
    ...SURFACE_CHAPTERS,
    {
      name: 'joint holding',
      description: 'Mandates, withdrawals of holders, and reported calls.',
      paths: ['/mandate', '/joint'],
    },
    RUNNING,
  ],
  securitySchemes,
})
