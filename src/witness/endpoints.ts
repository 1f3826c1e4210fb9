/**
 * Everything that a witness serves, and what OpenAPI says of it as a whole. Contract: "Events" (row 5).
 */
import { OPENAPI_ENDPOINT, RUNNING, type AboutListener } from '../http/openapi/openapi.ts'
import type { Described } from '../http/servers/endpoint.ts'
import { HEALTH, READY } from '../http/servers/health.ts'
import { ADD_CHECKPOINT } from './add-checkpoint.ts'

export const ENDPOINTS: readonly Described[] = [ADD_CHECKPOINT, HEALTH, READY, OPENAPI_ENDPOINT]

/** A witness's own part of the document; `server` is its own address. */
export const aboutListener = (server: string): AboutListener => ({
  title: 'usher: witness',
  description: "What authorities ask of a witness: its cosignature of the heads of their owners' ledgers.",
  server,
  chapters: [
    {
      name: 'witnessing',
      description: 'Checkpoints of logs (C2SP `tlog-witness`).',
      paths: ['/add-checkpoint'],
    },
    RUNNING,
  ],
  securitySchemes: {},
})
