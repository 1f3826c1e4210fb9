/**
 * What the listener of the administration is started with. Contract: "Parties" (owner's authorization
 * server).
 */
import type { AuthorityConfig } from '../../config.ts'
import { openAccepted } from '../../credentials/acceptance.ts'
import { serveEndpoints } from '../../http/servers/endpoint.ts'
import { OPENAPI_ENDPOINT, openApiDocument } from '../../http/openapi/openapi.ts'
import type { HttpServer } from '../../http/servers/server.ts'
import { signatureBase } from '../../http/servers/signed-request.ts'
import type { Authority } from '../context.ts'
import { resumeRemovals } from './removal-completion.ts'
import { aboutAdministration, ADMIN_LISTENER, OWNER_ADMINISTRATION } from './endpoints.ts'

/** Its routes. It adds to `closers` what must end with the process. */
export function administrationRoutes(
  authority: Authority,
  { config, closers }: { config: AuthorityConfig; closers: (() => Promise<void>)[] },
): (app: HttpServer) => void {
  const { database, log, issuer } = authority
  const now = (): number => authority.now()
  const { adminAuth, adminRealm, administrators, devLoopback, archives } = config
  const { enrolmentSeconds, recoverySeconds, ownerAuth, realm } = config
  const behind = new Set<Promise<void>>()
  closers.push(async () => void (await Promise.all(behind)))
  const deviceKeys = adminAuth.includes('device-key')
  const accepted = openAccepted({ space: 'admin', deviceKeys, realm: adminRealm, devLoopback, now }, closers)
  const acceptance = { deviceKeys: ownerAuth.includes('device-key'), issuer: realm?.issuer }
  const api = {
    database,
    log,
    now,
    accepted,
    administrators,
    base: signatureBase(issuer),
    enrolling: { enrolmentSeconds, recoverySeconds, accepted: acceptance },
    archives,
    behind,
  }
  return app => {
    void resumeRemovals(api)
    serveEndpoints(app, api, OWNER_ADMINISTRATION)
    serveEndpoints(app, openApiDocument(ADMIN_LISTENER, aboutAdministration), [OPENAPI_ENDPOINT])
  }
}
