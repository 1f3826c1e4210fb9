/** Owns the OpenAPI document of every listener of every party, by a name that can stand in a program. */
import { aboutAdministration, ADMIN_LISTENER } from '../../src/authority/administration/endpoints.ts'
import {
  aboutListener as aboutAuthority,
  ENDPOINTS as AUTHORITY,
  JOINT_ENDPOINTS,
  LOG_ENDPOINTS,
} from '../../src/authority/endpoints.ts'
import { aboutDocuments, DOCUMENTS } from '../../src/enforcement/documents/endpoints.ts'
import { openApiDocument } from '../../src/http/openapi/openapi.ts'
import {
  aboutListener as aboutOrganization,
  ENDPOINTS as ORGANIZATION,
} from '../../src/organization/endpoints.ts'
import { aboutListener as aboutTally, ENDPOINTS as TALLY } from '../../src/tally/endpoints.ts'
import { aboutListener as aboutWitness, ENDPOINTS as WITNESS } from '../../src/witness/endpoints.ts'

/** Made anew at each call. */
export function documents(): Record<string, Record<string, unknown>> {
  const at = 'https://served.example'
  const ofAuthority = (listener: 'public' | 'owner') =>
    openApiDocument(
      [...AUTHORITY[listener], ...JOINT_ENDPOINTS[listener], ...LOG_ENDPOINTS[listener]],
      aboutAuthority[listener](at),
    )()
  return {
    authority: ofAuthority('public'),
    owner: ofAuthority('owner'),
    administration: openApiDocument(ADMIN_LISTENER, aboutAdministration)(),
    organization: openApiDocument(ORGANIZATION.public, aboutOrganization.public(at))(),
    organization_admin: openApiDocument(ORGANIZATION.admin, aboutOrganization.admin(at))(),
    tally: openApiDocument(TALLY, aboutTally(at))(),
    witness: openApiDocument(WITNESS, aboutWitness(at))(),
    sidecar: openApiDocument(DOCUMENTS, aboutDocuments(at))(),
  }
}
